// fleet: the lifecycle of a run as in Paddle's fleet, in C, and its FleetWrapper.
//
// A program runs in all roles: on servers it serves, on workers it trains. The order of
// calls is Paddle's:
//
//   tug_fleet_init           fleet.init(role_maker): finds this process's role
//   a server                 tug_fleet_init_server, tug_fleet_run_server
//   a worker                 tug_fleet_init_worker; pushes and pulls by tug_fleet_client
//                            (tug/tug.h, tug/table.h); saves; tug_fleet_stop_worker
//   `tug launch`'s scheduler tug_fleet_run_server, too: is_worker, else serve
//   tug_fleet_close
//
// All processes give the same list of the run's tables (Paddle: dist_desc). Tables with
// variables are dense: arrays that every worker has whole; others are sparse.
//
// Functions tug_fleet_... act on the run: all workers call those that wait for each
// other, as their comments say. Functions tug_wrapper_... (Paddle: FleetWrapper) are one
// worker's request, done when they return, without the other workers.
//
// Threads: only one thread at a time may use a fleet; any thread may use its client.
// There are no callbacks.
//
// Errors: functions return 0 or a code of tug/tug.h, and tug_last_error() is the
// sentence. All may return TUG_EUSAGE for a call in the wrong role or at the wrong time,
// an unknown table or an invalid mode; TUG_ENOMEM; those that ask servers or wait also
// TUG_EIO if a server has died, the run has ended, or the wait took too long, naming the
// awaited process; TUG_EINTERRUPTED: see tug_interrupt_by. Results (`ret`) are set only
// if the code is 0.
//
// Waits: at most wait_seconds of the options, or TUG_WAIT_SECONDS (600), except
// tug_fleet_run_server, which serves as long as the run lasts.
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

// Paddle's numbers (role_maker.Role), and the scheduler's, which Paddle lacks. They never change.
enum tug_fleet_role {
    TUG_FLEET_WORKER = 1,
    TUG_FLEET_SERVER = 2,
    TUG_FLEET_SCHEDULER = 6
};

// The last table number below TUG_TABLES_MAX is fleet's own: workers exchange values
// through it.
enum { TUG_FLEET_TABLE = 4095 };

// A role maker holds this process's role among the servers and workers of a run. It does
// not change, and any thread may use it.
struct tug_role_maker;

// From the environment (Paddle: PaddleCloudRoleMaker): TRAINING_ROLE (TRAINER, PSERVER),
// PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM; a trainer's PADDLE_TRAINER_ID; a
// server's POD_IP and PADDLE_PORT; PADDLE_TRAINER_ENDPOINTS if it is there. DMLC_ROLE
// with DMLC_NUM_SERVER, DMLC_NUM_WORKER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT and
// DMLC_SERVER_ID or DMLC_WORKER_ID counts where it is set, as tug launch sets both;
// TUG_SCHEDULER before DMLC_PS_ROOT_*. In Paddle's scheme the first server hosts the
// scheduler, at its own endpoint. `environment`: "NAME=VALUE" texts, NULL behind the
// last; NULL: this process's. TUG_EUSAGE names all variables that are missing or wrong.
TUG_API int tug_role_maker_cloud(struct tug_role_maker **ret,
                                 const char *const *environment);

// Roles given by the program (Paddle: UserDefinedRoleMaker). Endpoints are "HOST:PORT".
// Without server endpoints there is one worker, and the servers are threads of its
// process.
struct tug_role_maker_options {
    int role;            // TUG_FLEET_WORKER or TUG_FLEET_SERVER
    uint32_t current_id; // its index among its kind
    uint32_t worker_num; // 0: the number of endpoints; a worker need not know
    const char *const *server_endpoints;
    size_t n_server_endpoints;
    const char *const *worker_endpoints; // tug does not need them
    size_t n_worker_endpoints;
};
// TUG_EUSAGE names the mistake: an invalid role, an endpoint that is invalid or listed
// twice, an index that is too high, no servers for a server or for several workers.
TUG_API int tug_role_maker_user(struct tug_role_maker **ret,
                                const struct tug_role_maker_options *o);
// Frees it; a fleet that got it has a copy. NULL is fine.
TUG_API void tug_role_maker_close(struct tug_role_maker *m);

// All known facts.
struct tug_place {
    int role;                  // enum tug_fleet_role
    uint32_t index;            // among its kind; 0 for the scheduler
    uint32_t workers, servers; // how many the run has; workers 0: not known
    uint32_t server_endpoints, worker_endpoints; // how many of them are known
    bool alone; // the servers are threads of this process
};
TUG_API void tug_role_maker_place(const struct tug_role_maker *m, struct tug_place *ret);
// Returns "HOST:PORT" of a server or a worker by its index, valid as long as the role
// maker; NULL if not known.
TUG_API const char *tug_role_maker_endpoint(const struct tug_role_maker *m, int role,
                                            uint32_t index);

// A fleet is this process's part in a run.
struct tug_fleet;

struct tug_fleet_table {
    uint32_t number; // below TUG_FLEET_TABLE
    const char *name;
    const char *settings; // of tug_table_create, without the name
    // The variables of a dense table, in this order (tug_dense_open); a sparse one has
    // none.
    const struct tug_variable *variables;
    size_t n_variables;
};

struct tug_fleet_options {
    const struct tug_role_maker *roles; // NULL: tug_role_maker_cloud
    const struct tug_fleet_table *tables;
    size_t n_tables;
    double wait_seconds; // the longest wait; 0: TUG_WAIT_SECONDS, or 600
    // For a worker that runs alone: the number of loops with its rows; 0: 1.
    uint32_t local_loops;
    // A client of this worker that has joined the run already, after the servers have
    // loaded their start: tug_fleet_init_worker uses it, and the caller owns it again
    // after tug_fleet_stop_worker. NULL: the fleet opens its own.
    struct tug_client *client;
};

// Finds this process's role, and starts nothing. (Paddle: fleet.init.) `o` may be NULL.
// TUG_EUSAGE if the environment lacks a variable; or a table has no name, or a number or
// name that another table or fleet itself has.
TUG_API int tug_fleet_init(struct tug_fleet **ret, const struct tug_fleet_options *o);
// Frees it. A worker in a run leaves it; call tug_fleet_stop_worker before to get errors
// of leaving. NULL is fine.
TUG_API void tug_fleet_close(struct tug_fleet *f);

// Roles. Indexes are from 0; UINT32_MAX for another role. If a worker was not told the
// number of workers, its worker_num is 0 before tug_fleet_init_worker. Endpoints as in
// tug_role_maker_endpoint, valid as long as the fleet.
TUG_API bool tug_fleet_is_worker(const struct tug_fleet *f);
TUG_API bool tug_fleet_is_server(const struct tug_fleet *f);
TUG_API bool tug_fleet_is_first_worker(const struct tug_fleet *f);
TUG_API uint32_t tug_fleet_worker_index(const struct tug_fleet *f);
TUG_API uint32_t tug_fleet_server_index(const struct tug_fleet *f);
TUG_API uint32_t tug_fleet_worker_num(const struct tug_fleet *f);
TUG_API uint32_t tug_fleet_server_num(const struct tug_fleet *f);
TUG_API const char *tug_fleet_worker_endpoint(const struct tug_fleet *f, uint32_t index);
TUG_API const char *tug_fleet_server_endpoint(const struct tug_fleet *f, uint32_t index);

// Servers.

// Sets the run's start: all tables, or those with these names, of a directory of
// tug_fleet_save_persistables, or of a save in it. All servers call it, and must see the
// directory; server 0 loads the tables in tug_fleet_run_server, and workers wait for it.
// `dirname` NULL: loads nothing. TUG_EUSAGE if no table has a name, or the path has a
// comma. (Paddle: init_server(dirname, var_names).)
TUG_API int tug_fleet_init_server(struct tug_fleet *f, const char *dirname,
                                  const char *const *names, size_t n_names);
// Likewise for one table with its own path. (Paddle: FleetWrapper.load_sparse.)
TUG_API int tug_wrapper_load_sparse(struct tug_fleet *f, uint32_t table,
                                    const char *path);
// Serves until the last worker has left, or tug_wrapper_stop_server. `ip` and `port` are where this
// server listens; NULL and 0: its own endpoint. The first server's endpoint cannot be another
// than that of the list, as the others look for it there. TUG_EIO, TUG_EDATA: what was
// to be loaded was not, and the run has ended at all processes.
TUG_API int tug_fleet_run_server(struct tug_fleet *f, const char *ip, uint16_t port);

// Workers.

// Joins the run: waits until all servers and workers are there and what init_server named
// is loaded; makes the tables. Dense variables of a new table get their first values from
// one worker. All workers call it. TUG_EUSAGE: another process says that it is this
// worker; a table cannot be made. Where it fails this worker has left. (Paddle: init_worker.)
TUG_API int tug_fleet_init_worker(struct tug_fleet *f);
// Its client, the fleet's, between init_worker and stop_worker; else NULL.
TUG_API struct tug_client *tug_fleet_client(struct tug_fleet *f);
// Leaves the run: what is in flight is waited for, in the communicator, too, and what of it has
// failed is returned; this worker has left all the same. Servers end when the last worker has left.
TUG_API int tug_fleet_stop_worker(struct tug_fleet *f);
// Waits until all workers have called it. (Paddle: barrier_worker; FleetWrapper.barrier.)
TUG_API int tug_fleet_barrier_worker(struct tug_fleet *f);

// Collective operations (Paddle: fleet.util). All workers call them, in the same order,
// and wait for each other. TUG_EIO if a worker left or died before its part.

enum tug_fleet_reduce { TUG_FLEET_SUM, TUG_FLEET_MAX, TUG_FLEET_MIN };
// Combines the n numbers of all workers one by one, in the order of their indexes:
// values[i] becomes the sum, the greatest or the least of all workers' values[i], and all
// get the same bits; on failure they stay unchanged. TUG_EUSAGE if n differs between
// workers, or an integer sum (_whole) is beyond 64 bits.
TUG_API int tug_fleet_all_reduce(struct tug_fleet *f, double *values, size_t n,
                                 enum tug_fleet_reduce how);
TUG_API int tug_fleet_all_reduce_whole(struct tug_fleet *f, int64_t *values, size_t n,
                                       enum tug_fleet_reduce how);
// Gathers n bytes of each worker, one after the other by index: `ret` has room for
// worker_num x n bytes. At most 16 MiB per worker. TUG_EUSAGE if n differs between
// workers.
TUG_API int tug_fleet_all_gather(struct tug_fleet *f, const void *bytes, size_t n,
                                 void *ret);
// Sorts the paths, and selects this worker's, which are neighbours: [*ret_first,
// *ret_first + *ret_n). If they do not divide evenly, the first workers have one more.
// TUG_EUSAGE if a path is there twice, or the number of workers is not known yet. Does
// not wait.
TUG_API int tug_fleet_get_file_shard(const struct tug_fleet *f, const char **paths,
                                     size_t n, size_t *ret_first, size_t *ret_n);

// Rows. Modes are Paddle's.

enum tug_fleet_mode {
    TUG_FLEET_ALL = 0,   // every row, all state
    TUG_FLEET_DELTA = 1, // of the rows worth publishing, those that have changed
    TUG_FLEET_BASE = 2,  // rows worth publishing
    TUG_FLEET_DAY = 3    // every row; then the day ends
};

// The servers write the tables of the fleet, or one, below `dirname`, as tug_save needs
// it; worker 0 asks for it, waits and gets its errors, others return at once. `ret_path`
// (may be NULL): the path of the save; "" at others.
TUG_API int tug_fleet_save_persistables(struct tug_fleet *f, const char *dirname,
                                        enum tug_fleet_mode mode,
                                        char ret_path[TUG_PATH_MAX]);
TUG_API int tug_fleet_save_one_table(struct tug_fleet *f, uint32_t table,
                                     const char *dirname, enum tug_fleet_mode mode,
                                     char ret_path[TUG_PATH_MAX]);
// Clears all tables, or one, and loads the rows of a save (see tug_load). All workers
// call it and wait for it; an error of worker 0, which asks for it, is every worker's
// error. (Paddle: load_model, load_one_table.)
TUG_API int tug_fleet_load_model(struct tug_fleet *f, const char *dirname);
TUG_API int tug_fleet_load_one_table(struct tug_fleet *f, uint32_t table,
                                     const char *dirname);
// Decays shows and clicks of all sparse tables and removes rows below the threshold
// (tug_shrink), once. All workers call it. `threshold` replaces the tables' own; NAN:
// theirs. (Paddle ignores it.) *ret_removed (may be NULL): the rows removed from all
// tables.
TUG_API int tug_fleet_shrink(struct tug_fleet *f, float threshold, uint64_t *ret_removed);

// FleetWrapper: one worker's requests, done when they return. The functions above are
// done by worker 0 for all, these by the calling worker.

TUG_API int tug_wrapper_load_model(struct tug_fleet *f, const char *dirname);
TUG_API int tug_wrapper_load_one_table(struct tug_fleet *f, uint32_t table,
                                       const char *dirname);
TUG_API int tug_wrapper_save_all_model(struct tug_fleet *f, const char *dirname,
                                       enum tug_fleet_mode mode,
                                       char ret_path[TUG_PATH_MAX]);
TUG_API int tug_wrapper_save_one_model(struct tug_fleet *f, uint32_t table,
                                       const char *dirname, enum tug_fleet_mode mode,
                                       char ret_path[TUG_PATH_MAX]);
// Pulls the whole table and writes it here, as text: see tug_dump.
TUG_API int tug_wrapper_recv_and_save_model(struct tug_fleet *f, uint32_t table,
                                            const char *file);
// Push and pull a dense table: n floats, all its variables one after the other. Push sets
// them, whatever the rule. TUG_EUSAGE if the table is not dense, or n is not the size of
// its variables.
TUG_API int tug_wrapper_push_dense_params(struct tug_fleet *f, uint32_t table,
                                          const float *values, size_t n);
TUG_API int tug_wrapper_pull_dense_params(struct tug_fleet *f, uint32_t table,
                                          float *values, size_t n);
// Get the servers' statistics of a sparse table (tug_table_stat), and shrink it
// (*ret_removed, may be NULL: the rows removed; `threshold` as in tug_fleet_shrink).
// TUG_EUSAGE if the table is dense.
TUG_API int tug_wrapper_sparse_table_stat(struct tug_fleet *f, uint32_t table,
                                          struct tug_table_stats *ret);
TUG_API int tug_wrapper_shrink_sparse_table(struct tug_fleet *f, uint32_t table,
                                            float threshold, uint64_t *ret_removed);
// Ends the run at all processes: their waits return TUG_EINTERRUPTED, and the sentence
// names this worker.
TUG_API int tug_wrapper_stop_server(struct tug_fleet *f);

// Paddle's workers exchange addresses and link up, to shuffle. Workers of tug have no
// links to each other, and exchange values through the servers. A worker's info names it;
// set_clients_info takes all workers' in the order of indexes (n: worker_num), and
// create_client2client_connection, which all workers call, checks that they are in this
// run: TUG_EUSAGE if one is not.
enum { TUG_CLIENT_INFO_MAX = 64 };
TUG_API int tug_wrapper_get_client_info(struct tug_fleet *f,
                                        char ret[TUG_CLIENT_INFO_MAX]);
TUG_API int tug_wrapper_set_clients(struct tug_fleet *f, const char *const *infos,
                                    size_t n);
TUG_API int tug_wrapper_create_client2client_connection(struct tug_fleet *f);

// The worker's communicator (Paddle: Communicator.init_with_ctx), for these tables, or
// with n 0 for all of the fleet's. The fleet owns it: the caller uses
// tug_communicator_start, _send, _stop, _is_running, and tug_fleet_stop_worker flushes
// and closes it. TUG_EUSAGE if there is one already.
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
