// fleet: the life of a run as Paddle's fleet has it, in C, and its FleetWrapper.
//
// A program runs in all roles: on servers it serves, on workers it trains. Its order is Paddle's:
//
//   tug_fleet_init           fleet.init(role_maker): who this process is
//   a server                 tug_fleet_init_server, tug_fleet_run_server
//   a worker                 tug_fleet_init_worker; pushes and pulls by tug_fleet_client
//                            (tug/tug.h, tug/table.h); saves; tug_fleet_stop_worker
//   `tug launch`'s scheduler tug_fleet_run_server, too: is_worker, else serve
//   tug_fleet_close
//
// What the run's rows are is said once, by the same tables in all processes (Paddle: dist_desc).
// Tables with variables are dense: arrays that every worker has whole; others are sparse.
//
// Functions tug_fleet_... are of the run: all workers call those that wait for each other, and
// there is a line that says so. Functions tug_wrapper_... (Paddle: FleetWrapper) are one worker's
// request, done when they return; other workers know nothing of it.
//
// Threads: a fleet is one thread's at a time; its client is anybody's. Nothing calls back.
//
// Errors: functions return 0 or a code of tug/tug.h, and tug_last_error() is the
// sentence. What all of them have: TUG_EUSAGE: a call in the wrong role or at the wrong
// time, a table that is not one of the fleet's, a mode that is none; TUG_ENOMEM; and of
// those that ask servers or wait TUG_EIO: a server has died or the run has ended, or what
// was waited for has not come in time, and the sentence says whom; TUG_EINTERRUPTED: see
// tug_interrupt_by. What is returned (`ret`) is set when the code is 0.
//
// Waits: at most wait_seconds of the options, or TUG_WAIT_SECONDS (600); but for
// tug_fleet_run_server, which serves as long as the run goes on.
//
// Ownership: texts and arrays are the caller's and are copied, or read during the call.
// from-paddle.md in the documentation (share/doc/tug) maps Paddle's names to these.
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

// Of the numbers of tables below TUG_TABLES_MAX the last one is fleet's own: what workers tell each
// other goes through it.
enum { TUG_FLEET_TABLE = 4095 };

// A role maker: who this process is among the servers and workers of a run. It does not change, and
// any thread may ask it.
struct tug_role_maker;

// From the environment (Paddle: PaddleCloudRoleMaker): TRAINING_ROLE (TRAINER, PSERVER),
// PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM; a trainer's PADDLE_TRAINER_ID; a
// server's POD_IP and PADDLE_PORT; PADDLE_TRAINER_ENDPOINTS if it is there. DMLC_ROLE
// with DMLC_NUM_SERVER, DMLC_NUM_WORKER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT and
// DMLC_SERVER_ID or DMLC_WORKER_ID counts where it is set, as tug launch sets both;
// TUG_SCHEDULER before DMLC_PS_ROOT_*. In Paddle's scheme the first server hosts the
// scheduler, at its own endpoint. `environment`: "NAME=VALUE" texts, NULL behind the
// last; NULL: this process's. TUG_EUSAGE naming all that is missing or wrong.
TUG_API int tug_role_maker_cloud(struct tug_role_maker **ret,
                                 const char *const *environment);

// As the program says (Paddle: UserDefinedRoleMaker). Endpoints are "HOST:PORT". Without server
// endpoints there is one worker, and the servers are threads of its process.
struct tug_role_maker_options {
    int role;            // TUG_FLEET_WORKER or TUG_FLEET_SERVER
    uint32_t current_id; // its index among its kind
    uint32_t worker_num; // 0: as many as have endpoints; a worker need not know
    const char *const *server_endpoints;
    size_t n_server_endpoints;
    const char *const *worker_endpoints; // tug does not need them
    size_t n_worker_endpoints;
};
// TUG_EUSAGE naming what cannot be: another role, an endpoint that is none or is there twice, an
// index that is too high, no servers for a server or for several workers.
TUG_API int tug_role_maker_user(struct tug_role_maker **ret,
                                const struct tug_role_maker_options *o);
// Frees it; a fleet that was given it has a copy. NULL is fine.
TUG_API void tug_role_maker_close(struct tug_role_maker *m);

// All that is known.
struct tug_place {
    int role;                  // enum tug_fleet_role
    uint32_t index;            // among its kind; 0 of the scheduler
    uint32_t workers, servers; // how many the run has; workers 0: not known
    uint32_t server_endpoints, worker_endpoints; // how many of them are known
    bool alone; // the servers are threads of this process
};
TUG_API void tug_role_maker_place(const struct tug_role_maker *m, struct tug_place *ret);
// "HOST:PORT" of a server or a worker by its index, as long as the role maker is
// there; NULL: not known.
TUG_API const char *tug_role_maker_endpoint(const struct tug_role_maker *m, int role,
                                            uint32_t index);

// A fleet: this process's part in a run.
struct tug_fleet;

struct tug_fleet_table {
    uint32_t number; // below TUG_FLEET_TABLE
    const char *name;
    const char *settings; // of tug_table_create, without the name
    // What a dense table holds, in this order (tug_dense_open); a sparse one has none.
    const struct tug_variable *variables;
    size_t n_variables;
};

struct tug_fleet_options {
    const struct tug_role_maker *roles; // NULL: tug_role_maker_cloud
    const struct tug_fleet_table *tables;
    size_t n_tables;
    double wait_seconds; // the longest wait; 0: TUG_WAIT_SECONDS, or 600
    // Of a worker that is alone: loops that have its rows; 0: 1.
    uint32_t local_loops;
    // A client of this worker's that is in the run already, behind what its servers begin with:
    // tug_fleet_init_worker takes it, and it is the caller's after tug_fleet_stop_worker. NULL:
    // the fleet has one of its own.
    struct tug_client *client;
};

// Finds out who this process is, and starts nothing. (Paddle: fleet.init.) `o` may be NULL.
// TUG_EUSAGE: the environment lacks something; a table has no name, a number or a name that
// another has, or one of fleet's own.
TUG_API int tug_fleet_init(struct tug_fleet **ret, const struct tug_fleet_options *o);
// Frees it. A worker that is in a run leaves it; what fails then is heard of who calls
// tug_fleet_stop_worker before. NULL is fine.
TUG_API void tug_fleet_close(struct tug_fleet *f);

// Who. Indexes are from 0; of another role UINT32_MAX. A worker that was not told how many workers
// there are has worker_num 0 before tug_fleet_init_worker. Endpoints are as of
// tug_role_maker_endpoint, as long as the fleet is there.
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

// What the run begins with: all tables, or those of these names, of a directory that
// tug_fleet_save_persistables wrote, or of a save in it. All servers call it, and have to see the
// directory; server 0 loads the tables in tug_fleet_run_server, and workers wait for it. `dirname`
// NULL: nothing. TUG_EUSAGE: a name is no table's, or the path has a comma. (Paddle:
// init_server(dirname, var_names).)
TUG_API int tug_fleet_init_server(struct tug_fleet *f, const char *dirname,
                                  const char *const *names, size_t n_names);
// Likewise one table, of a path of its own. (Paddle: FleetWrapper.load_sparse.)
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
// Waits until all workers are here. (Paddle: barrier_worker; FleetWrapper.barrier.)
TUG_API int tug_fleet_barrier_worker(struct tug_fleet *f);

// What workers do together (Paddle: fleet.util). All workers call them, in the same order, and wait
// for each other. TUG_EIO: a worker has left or died before it said its part.

enum tug_fleet_reduce { TUG_FLEET_SUM, TUG_FLEET_MAX, TUG_FLEET_MIN };
// Combines the n numbers of all workers one by one, in the order of their indexes:
// values[i] becomes the sum, the greatest or the least of all workers' values[i], and all
// get the same bits; where that fails they stay as they are. TUG_EUSAGE: n is not the
// same everywhere; of integers (_whole): a sum is beyond 64 bits.
TUG_API int tug_fleet_all_reduce(struct tug_fleet *f, double *values, size_t n,
                                 enum tug_fleet_reduce how);
TUG_API int tug_fleet_all_reduce_whole(struct tug_fleet *f, int64_t *values, size_t n,
                                       enum tug_fleet_reduce how);
// n bytes of each worker, one behind the other by index: `ret` has room for worker_num x
// n bytes. At most 16 MiB of a worker. TUG_EUSAGE: n is not the same everywhere.
TUG_API int tug_fleet_all_gather(struct tug_fleet *f, const void *bytes, size_t n,
                                 void *ret);
// Sorts the paths, and says which are this worker's: neighbours, [*ret_first, *ret_first
// + *ret_n). Where they do not divide evenly the first workers have one more. TUG_EUSAGE:
// a path is there twice, or how many workers there are is not known yet. Waits for nobody.
TUG_API int tug_fleet_get_file_shard(const struct tug_fleet *f, const char **paths,
                                     size_t n, size_t *ret_first, size_t *ret_n);

// Rows. Modes are Paddle's.

enum tug_fleet_mode {
    TUG_FLEET_ALL = 0,   // every row, all state
    TUG_FLEET_DELTA = 1, // of those worth publishing, what has changed
    TUG_FLEET_BASE = 2,  // those worth publishing
    TUG_FLEET_DAY = 3    // every row; then the day ends
};

// The servers write the tables of the fleet, or one, below `dirname`, which has to be what tug_save
// needs; worker 0 asks for it, waits and has its errors, others return at once. `ret_path` (may be
// NULL): where the save is; "" at others.
TUG_API int tug_fleet_save_persistables(struct tug_fleet *f, const char *dirname,
                                        enum tug_fleet_mode mode,
                                        char ret_path[TUG_PATH_MAX]);
TUG_API int tug_fleet_save_one_table(struct tug_fleet *f, uint32_t table,
                                     const char *dirname, enum tug_fleet_mode mode,
                                     char ret_path[TUG_PATH_MAX]);
// Rows of a save (see tug_load) into all tables, or one, which are cleared first. All workers call
// it, and wait until it is there; that worker 0, which asks for it, could not is every worker's
// error. (Paddle: load_model, load_one_table.)
TUG_API int tug_fleet_load_model(struct tug_fleet *f, const char *dirname);
TUG_API int tug_fleet_load_one_table(struct tug_fleet *f, uint32_t table,
                                     const char *dirname);
// Decays shows and clicks of all sparse tables and removes rows that have faded (tug_shrink), once.
// All workers call it. `threshold`: in place of the tables' own; NAN: theirs. (Paddle ignores it.)
// *ret_removed (may be NULL): rows of all tables.
TUG_API int tug_fleet_shrink(struct tug_fleet *f, float threshold, uint64_t *ret_removed);

// FleetWrapper: one worker's requests, done when they return. What the functions above do
// by worker 0 for all, these do for whoever calls.

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
// Of a dense table: n floats, all its variables one behind the other. Push sets them, whatever the
// rule is. TUG_EUSAGE: the table is not dense, or n is not what its variables have.
TUG_API int tug_wrapper_push_dense_params(struct tug_fleet *f, uint32_t table,
                                          const float *values, size_t n);
TUG_API int tug_wrapper_pull_dense_params(struct tug_fleet *f, uint32_t table,
                                          float *values, size_t n);
// What servers say of a table (tug_table_stat); rows that fade, of a sparse one, and how many
// (*ret_removed, may be NULL; `threshold` as of tug_fleet_shrink). TUG_EUSAGE: the table is dense.
TUG_API int tug_wrapper_sparse_table_stat(struct tug_fleet *f, uint32_t table,
                                          struct tug_table_stats *ret);
TUG_API int tug_wrapper_shrink_sparse_table(struct tug_fleet *f, uint32_t table,
                                            float threshold, uint64_t *ret_removed);
// Ends the run at all processes: what others wait for returns TUG_EINTERRUPTED, and the sentence
// names this worker.
TUG_API int tug_wrapper_stop_server(struct tug_fleet *f);

// Paddle's workers exchange addresses and link up, to shuffle. Workers of tug have no links to each
// other: what they exchange goes through the servers. A worker's info names it, all workers'
// are handed over in the order of indexes (n: worker_num), and create_client2client_connection,
// which all workers call, says whether they are in this run: TUG_EUSAGE: one is not.
enum { TUG_CLIENT_INFO_MAX = 64 };
TUG_API int tug_wrapper_get_client_info(struct tug_fleet *f,
                                        char ret[TUG_CLIENT_INFO_MAX]);
TUG_API int tug_wrapper_set_clients(struct tug_fleet *f, const char *const *infos,
                                    size_t n);
TUG_API int tug_wrapper_create_client2client_connection(struct tug_fleet *f);

// The worker's communicator (Paddle: Communicator.init_with_ctx), for these tables, or with n 0
// for all of the fleet's. It is the fleet's: tug_communicator_start, _send, _stop, _is_running are
// for the caller, tug_fleet_stop_worker flushes and closes it. TUG_EUSAGE: there is one.
TUG_API int tug_fleet_communicator(struct tug_fleet *f,
                                   const struct tug_communicator_table *tables, size_t n,
                                   struct tug_communicator **ret);
// The parameters of a dense table, with all in them that was handed to the communicator before
// (Paddle: Communicator.recv): tug_communicator_flush, then tug_wrapper_pull_dense_params, whose
// errors it has.
TUG_API int tug_fleet_recv(struct tug_fleet *f, uint32_t table, float *values, size_t n);

#ifdef __cplusplus
}
#endif

#endif
