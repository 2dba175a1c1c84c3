// fleet: the lifecycle of a run as in Paddle's fleet, in C, and its FleetWrapper.
//
// A program runs in all roles: on servers it serves, on workers it trains. The order of
// calls is Paddle's:
//
//   every process            tug_fleet_init: finds its role (fleet.init(role_maker))
//   a server                 tug_fleet_init_server, tug_fleet_run_server
//   a worker                 tug_fleet_init_worker; pushes and pulls by tug_fleet_client
//                            (tug/tug.h, tug/table.h); saves; tug_fleet_stop_worker
//   a scheduler              tug_fleet_run_server (only tug launch starts such a process)
//   every process            tug_fleet_close
//
// All processes pass the same list of the run's tables (Paddle: dist_desc). A table that
// has variables is dense: every worker pulls and pushes all of it. All other tables are
// sparse. Functions tug_fleet_... act for the whole run. "All workers call it" means that
// the workers wait for each other in this call. Functions tug_wrapper_... (Paddle:
// FleetWrapper) send a request of this worker alone and return when it is done.
//
// Threads: only one thread at a time may use a fleet; any thread may use its client.
// There are no callbacks.
//
// Errors: functions return 0 or a code of tug/tug.h, and tug_last_error() is the
// sentence. All may return TUG_EUSAGE for a call in the wrong role or at the wrong time,
// an unknown table or an invalid mode, and TUG_ENOMEM. Functions that ask servers or wait
// may also return TUG_EIO if a server has died, the run has ended, or the wait took too
// long (tug_last_error names the awaited process), and TUG_EINTERRUPTED (see
// tug_interrupt_by). Results (`ret`) are set only if the code is 0.
//
// Waits: each wait takes at most wait_seconds of the options, or TUG_WAIT_SECONDS (600).
// Only tug_fleet_run_server has no limit, because it serves until the run ends.
//
// Ownership: texts and arrays belong to the caller and are copied, or read during the
// call. from-paddle.md in the documentation (share/doc/tug) maps Paddle's names to these.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FLEET_H
#define TUG_FLEET_H

#include "tug/communicator.h"
#include "tug/kvapp.h"
#include "tug/table.h"

#ifdef __cplusplus
extern "C" {
#endif

// The roles with Paddle's numbers (role_maker.Role), and the scheduler, which Paddle does
// not have. The numbers never change.
enum tug_fleet_role {
    TUG_FLEET_WORKER = 1,
    TUG_FLEET_SERVER = 2,
    TUG_FLEET_SCHEDULER = 6
};

// A role maker holds this process's role and the other processes of the run. It does not
// change after it was made, and any thread may use it.
struct tug_role_maker;

// Makes a role maker from environment variables (Paddle: PaddleCloudRoleMaker). Paddle's
// variables are TRAINING_ROLE (TRAINER, PSERVER), PADDLE_PSERVERS_IP_PORT_LIST and
// PADDLE_TRAINERS_NUM; for a trainer PADDLE_TRAINER_ID; for a server POD_IP and
// PADDLE_PORT; PADDLE_TRAINER_ENDPOINTS is optional. If DMLC_ROLE is set,
// DMLC_NUM_SERVER, DMLC_NUM_WORKER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT and
// DMLC_SERVER_ID or DMLC_WORKER_ID are used instead (tug launch sets both kinds), and
// TUG_SCHEDULER overrides DMLC_PS_ROOT_*. With Paddle's variables the first server hosts
// the scheduler, at its own endpoint. `environment` is a list of "NAME=VALUE" texts that
// ends with NULL; if it is NULL, the environment of this process is used. TUG_EUSAGE
// names all variables that are missing or wrong.
TUG_API int tug_role_maker_cloud(struct tug_role_maker **ret,
                                 const char *const *environment);

// Roles that the program gives, for tug_role_maker_user (Paddle: UserDefinedRoleMaker).
// Endpoints are "HOST:PORT". Without server endpoints the run has only one worker, and
// the servers are threads of its process.
struct tug_role_maker_options {
    int role;            // TUG_FLEET_WORKER or TUG_FLEET_SERVER
    uint32_t current_id; // this process's index among the workers or the servers
    uint32_t worker_num; // 0: n_worker_endpoints is used; 0 in both is fine for a worker
    const char *const *server_endpoints;
    size_t n_server_endpoints;
    const char *const *worker_endpoints; // tug does not need them
    size_t n_worker_endpoints;
};
// Makes a role maker from these options. TUG_EUSAGE if the role is invalid, an endpoint
// is invalid or listed twice, current_id is too high, or the options of a server, or of
// one of several workers, have no server endpoints.
TUG_API int tug_role_maker_user(struct tug_role_maker **ret,
                                const struct tug_role_maker_options *o);
// Frees a role maker. A fleet that was opened with it has a copy. NULL is fine.
TUG_API void tug_role_maker_close(struct tug_role_maker *m);

// The facts that a role maker knows about the run and this process, for
// tug_role_maker_place.
struct tug_place {
    int role;       // enum tug_fleet_role
    uint32_t index; // this process's index among the workers or servers; scheduler: 0
    // Numbers of processes in the run; workers is 0 if not known.
    uint32_t workers, servers;
    uint32_t server_endpoints, worker_endpoints; // numbers of endpoints that are known
    bool alone; // true: this process is the whole run, and the servers are its threads
};
TUG_API void tug_role_maker_place(const struct tug_role_maker *m, struct tug_place *ret);
// Returns the endpoint "HOST:PORT" of the server or worker with this index, or NULL if it
// is not known. The text is valid as long as the role maker.
TUG_API const char *tug_role_maker_endpoint(const struct tug_role_maker *m, int role,
                                            uint32_t index);

// A fleet is this process's part in a run.
struct tug_fleet;

struct tug_fleet_table {
    uint32_t number; // below TUG_TABLES_MAX
    const char *name;
    const char *settings; // settings as for tug_table_create, but without `name`
    // The variables of a dense table, in the order of tug_dense_open. A sparse table has
    // no variables.
    const struct tug_variable *variables;
    size_t n_variables;
};

struct tug_fleet_options {
    // The role of this process. NULL: a role maker from the environment
    // (tug_role_maker_cloud).
    const struct tug_role_maker *roles;
    const struct tug_fleet_table *tables;
    size_t n_tables;
    double wait_seconds; // the time limit of each wait; 0: TUG_WAIT_SECONDS, or 600
    // The number of server threads of a worker that runs alone; 0: 1.
    uint32_t local_loops;
    // A client of this worker, which tug_fleet_init_worker uses. The client must have
    // joined the run, and the servers must have loaded the tables that
    // tug_fleet_init_server names. The caller owns it again after tug_fleet_stop_worker.
    // NULL: the fleet opens a client of its own.
    struct tug_client *client;
};

// Makes a fleet and finds this process's role. Does not connect to any process. (Paddle:
// fleet.init.) `o` may be NULL. TUG_EUSAGE if the environment lacks a variable, a table
// has no name, or its number or name is that of another table.
TUG_API int tug_fleet_init(struct tug_fleet **ret, const struct tug_fleet_options *o);
// Frees a fleet. A worker that has joined the run leaves it; to get the errors of leaving,
// call tug_fleet_stop_worker first. NULL is fine.
TUG_API void tug_fleet_close(struct tug_fleet *f);

// These functions return facts about the run and this process. Indexes count from 0.
// tug_fleet_worker_index is UINT32_MAX on servers and schedulers; tug_fleet_server_index
// is UINT32_MAX on workers and schedulers. If a worker does not know the number of
// workers, tug_fleet_worker_num is 0 until tug_fleet_init_worker. Endpoints are
// "HOST:PORT", or NULL if not known; the texts are valid as long as the fleet.
TUG_API bool tug_fleet_is_worker(const struct tug_fleet *f);
TUG_API bool tug_fleet_is_server(const struct tug_fleet *f);
TUG_API bool tug_fleet_is_first_worker(const struct tug_fleet *f);
TUG_API uint32_t tug_fleet_worker_index(const struct tug_fleet *f);
TUG_API uint32_t tug_fleet_server_index(const struct tug_fleet *f);
TUG_API uint32_t tug_fleet_worker_num(const struct tug_fleet *f);
TUG_API uint32_t tug_fleet_server_num(const struct tug_fleet *f);
TUG_API const char *tug_fleet_worker_endpoint(const struct tug_fleet *f, uint32_t index);
TUG_API const char *tug_fleet_server_endpoint(const struct tug_fleet *f, uint32_t index);

// ---------------------------------------------------------------- servers

// Names the save with which the run starts. `dirname` is a directory to which
// tug_fleet_save_persistables has saved (its newest save is used), or the directory of one
// save. If n_names is 0, all tables of the save are loaded, else only those with these
// names. All servers call this function, and must see the directory; server 0 loads the
// tables in tug_fleet_run_server, and workers wait until they are loaded. If `dirname` is
// NULL, nothing is loaded. TUG_EUSAGE if one of the names is not the name of a table, or
// the path has a comma. (Paddle: init_server(dirname, var_names).)
TUG_API int tug_fleet_init_server(struct tug_fleet *f, const char *dirname,
                                  const char *const *names, size_t n_names);
// Names the save from which one table is loaded at the start, as tug_fleet_init_server
// does for all tables. (Paddle: FleetWrapper.load_sparse.)
TUG_API int tug_wrapper_load_sparse(struct tug_fleet *f, uint32_t table,
                                    const char *path);
// Serves until the last worker has left, or a worker has called tug_wrapper_stop_server.
// The server listens at `ip` and `port`; NULL and 0 stand for its endpoint in the list of
// servers. The first server must listen at that endpoint, because the other processes
// connect to it there. TUG_EIO or TUG_EDATA if a table could not be loaded; the run has
// then ended in all processes.
TUG_API int tug_fleet_run_server(struct tug_fleet *f, const char *ip, uint16_t port);

// ---------------------------------------------------------------- workers

// Joins the run: waits until all servers and workers have joined and the servers have
// loaded the tables that tug_fleet_init_server names, then makes the tables. Dense
// variables of a new table get their initial values from worker 0. All workers call it.
// TUG_EUSAGE if another process has joined as this worker, or a table cannot be made. If
// it fails, this worker has left the run. (Paddle: init_worker.)
TUG_API int tug_fleet_init_worker(struct tug_fleet *f);
// Returns the fleet's client between tug_fleet_init_worker and tug_fleet_stop_worker,
// else NULL. The fleet owns it.
TUG_API struct tug_client *tug_fleet_client(struct tug_fleet *f);
// Waits for requests in flight and for the communicator's queues, then leaves the run.
// Returns the first error of these requests and pushes; the worker has left in any case.
// Servers end when the last worker has left.
TUG_API int tug_fleet_stop_worker(struct tug_fleet *f);
// Waits until all workers have called tug_fleet_barrier_worker. (Paddle: barrier_worker;
// FleetWrapper.barrier.)
TUG_API int tug_fleet_barrier_worker(struct tug_fleet *f);

// Collective operations (Paddle: fleet.util). All workers call them, in the same order,
// and wait for each other. They return TUG_EIO if a worker left or died before it took
// part, and TUG_EUSAGE if workers are in different calls; the error names both calls. The
// arrays go through the scheduler, at most 64 KiB at a time, and should be small.

enum tug_fleet_reduce { TUG_FLEET_SUM, TUG_FLEET_MAX, TUG_FLEET_MIN };
// These functions combine the n numbers of each worker with those of the other workers:
// values[i] becomes the sum, the maximum or the minimum of all workers' values[i]. The
// values are combined in the order of the workers' indexes, so all workers get the same
// bits; on failure the values stay unchanged. tug_fleet_all_reduce_whole does the same
// for integers. TUG_EUSAGE if n differs between workers, or an integer sum does not fit
// 64 bits.
TUG_API int tug_fleet_all_reduce(struct tug_fleet *f, double *values, size_t n,
                                 enum tug_fleet_reduce how);
TUG_API int tug_fleet_all_reduce_whole(struct tug_fleet *f, int64_t *values, size_t n,
                                       enum tug_fleet_reduce how);
// Gathers n bytes, at most 16 MiB, of each worker into `ret`, in the order of the
// workers' indexes; `ret` has room for worker_num x n bytes. TUG_EUSAGE if n differs
// between workers.
TUG_API int tug_fleet_all_gather(struct tug_fleet *f, const void *bytes, size_t n,
                                 void *ret);
// Sorts `paths` in place and selects this worker's share of them: *ret_n paths from
// paths[*ret_first] on. If the paths do not divide evenly, each of the first workers gets
// one path more. TUG_EUSAGE if the list has a path twice, or the number of workers is not
// known yet. Does not wait.
TUG_API int tug_fleet_get_file_shard(const struct tug_fleet *f, const char **paths,
                                     size_t n, size_t *ret_first, size_t *ret_n);

// Saves and loads of tables. Modes have Paddle's numbers.

enum tug_fleet_mode {
    TUG_FLEET_ALL = 0, // every row, all state
    TUG_FLEET_DELTA =
        1, // rows worth publishing that have changed since the last base or delta
    TUG_FLEET_BASE = 2, // rows worth publishing
    TUG_FLEET_DAY = 3   // every row, all state; then the day ends (tug_day)
};

// These functions save all tables of the fleet, or one table: the servers write them
// below `dirname`, which must lie where tug_save requires it. All workers may call them:
// worker 0 asks for the save, waits for it and gets its errors; the other workers return
// at once. `ret_path` (may be NULL) becomes the path of the save; at workers other than
// worker 0 it becomes "".
TUG_API int tug_fleet_save_persistables(struct tug_fleet *f, const char *dirname,
                                        enum tug_fleet_mode mode,
                                        char ret_path[TUG_PATH_MAX]);
TUG_API int tug_fleet_save_one_table(struct tug_fleet *f, uint32_t table,
                                     const char *dirname, enum tug_fleet_mode mode,
                                     char ret_path[TUG_PATH_MAX]);
// These functions clear all tables, or one table, and load the rows of a save (see
// tug_load). All workers call them and wait; worker 0 asks for the load, and all workers
// return its error. (Paddle: load_model, load_one_table.)
TUG_API int tug_fleet_load_model(struct tug_fleet *f, const char *dirname);
TUG_API int tug_fleet_load_one_table(struct tug_fleet *f, uint32_t table,
                                     const char *dirname);
// Decays shows and clicks of all sparse tables and removes rows below the threshold
// (tug_shrink), once. All workers call it. `threshold` replaces the delete-threshold of
// each table; with NAN, each table uses its own. (Paddle ignores `threshold`.)
// *ret_removed (may be NULL) becomes the number of rows removed from all tables.
TUG_API int tug_fleet_shrink(struct tug_fleet *f, float threshold, uint64_t *ret_removed);

// FleetWrapper. The functions tug_fleet_... above send their request from worker 0 for
// all workers. The functions tug_wrapper_... send it from the worker that calls, and
// return when the request is done.

TUG_API int tug_wrapper_load_model(struct tug_fleet *f, const char *dirname);
TUG_API int tug_wrapper_load_one_table(struct tug_fleet *f, uint32_t table,
                                       const char *dirname);
TUG_API int tug_wrapper_save_all_model(struct tug_fleet *f, const char *dirname,
                                       enum tug_fleet_mode mode,
                                       char ret_path[TUG_PATH_MAX]);
TUG_API int tug_wrapper_save_one_model(struct tug_fleet *f, uint32_t table,
                                       const char *dirname, enum tug_fleet_mode mode,
                                       char ret_path[TUG_PATH_MAX]);
// Pulls the whole table and writes it as text to `file`, on this process's machine
// (tug_dump).
TUG_API int tug_wrapper_recv_and_save_model(struct tug_fleet *f, uint32_t table,
                                            const char *file);
// These functions set and get all variables of a dense table. `values` has the variables
// one after the other, n floats in all. The push replaces the variables' values; the
// table's rule is not applied. TUG_EUSAGE if the table is not dense, or n is not the size of its
// variables.
TUG_API int tug_wrapper_push_dense_params(struct tug_fleet *f, uint32_t table,
                                          const float *values, size_t n);
TUG_API int tug_wrapper_pull_dense_params(struct tug_fleet *f, uint32_t table,
                                          float *values, size_t n);
// These functions get the servers' statistics of a sparse table (tug_table_stat), and
// shrink a sparse table, with `threshold` as in tug_fleet_shrink; *ret_removed (may be
// NULL) becomes the number of rows removed. TUG_EUSAGE if the table is dense.
TUG_API int tug_wrapper_sparse_table_stat(struct tug_fleet *f, uint32_t table,
                                          struct tug_table_stats *ret);
TUG_API int tug_wrapper_shrink_sparse_table(struct tug_fleet *f, uint32_t table,
                                            float threshold, uint64_t *ret_removed);
// Ends the run in all processes: their waits return TUG_EINTERRUPTED with a sentence that
// names this worker.
TUG_API int tug_wrapper_stop_server(struct tug_fleet *f);

// Paddle's workers exchange their addresses and connect to each other, to shuffle data.
// Workers of tug exchange values through the scheduler instead. These functions exist for
// programs that make Paddle's calls. tug_wrapper_get_client_info writes a text that names
// this worker. tug_wrapper_set_clients takes the texts of all workers in the order of
// their indexes (n is worker_num). All workers then call
// tug_wrapper_create_client2client_connection, which returns TUG_EUSAGE if a text does
// not name a worker of this run.
enum { TUG_CLIENT_INFO_MAX = 64 };
TUG_API int tug_wrapper_get_client_info(struct tug_fleet *f,
                                        char ret[TUG_CLIENT_INFO_MAX]);
TUG_API int tug_wrapper_set_clients(struct tug_fleet *f, const char *const *infos,
                                    size_t n);
TUG_API int tug_wrapper_create_client2client_connection(struct tug_fleet *f);

// Opens the worker's communicator (Paddle: Communicator.init_with_ctx) for n tables, or,
// if n is 0, for all tables of the fleet. The caller uses tug_communicator_start, _send,
// _stop and _is_running; the fleet owns the communicator, and tug_fleet_stop_worker
// flushes and closes it. TUG_EUSAGE if the fleet has one already.
TUG_API int tug_fleet_communicator(struct tug_fleet *f,
                                   const struct tug_communicator_table *tables, size_t n,
                                   struct tug_communicator **ret);
// Gets the parameters of a dense table, including all pushes handed to the communicator
// before (Paddle: Communicator.recv): calls tug_communicator_flush, then
// tug_wrapper_pull_dense_params, and returns their errors.
TUG_API int tug_fleet_recv(struct tug_fleet *f, uint32_t table, float *values, size_t n);

#ifdef __cplusplus
}
#endif

#endif
