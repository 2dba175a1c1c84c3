// The metrics; see metrics_internal.h. All samples have the role of their process as a
// label, and its rank if it has one. A process tells only about itself: sums over targets
// count nothing twice.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/metrics_internal.h"

#define EACH_LOOP                                                                        \
    {                                                                                    \
        "servers", .labels = { {"loop", "loop"} }                                        \
    }

const struct metric_scope metric_scopes[] = {
    [OWN] = {NULL, {{NULL}}},
    [SERVER] = {"server", {{NULL}}},
    [LOOP] = {"server", {EACH_LOOP}},
    [REQUESTS] = {"server", {EACH_LOOP, {"requests", .key_label = "kind"}}},
    [TABLE] = {"server", {EACH_LOOP, {"tables", .labels = {{"table", "name"}}}}},
    [CLOCK] = {"server",
               {EACH_LOOP,
                {"tables", .labels = {{"table", "name"}}},
                {"workers", .labels = {{"worker", "rank"}}}}},
    [TRAINED] = {"train", {{"tables", .labels = {{"table", "name"}}}}},
    [DISK] = {NULL, {{"disks", .labels = {{"what", "what"}}}}},
    [NODE] = {"scheduler",
              {{"nodes", .labels = {{"node_role", "role"},
                                    {"node_rank", "rank"},
                                    {"loop", "loop"}}}}},
    [WORKERS] = {"scheduler",
                 {{"nodes", .labels = {{"worker", "rank"}}, .only = "worker"}}},
    [SPACE] = {"scheduler", {{"placement", .key_label = "space"}}},
    [RUN] = {"scheduler train", {{"run"}}},
    [PROCESS] = {"launch",
                 {{"processes",
                   .labels = {{"process_role", "role"}, {"process_rank", "rank"}}}}},
};

#define ROW(name, scope, field, type, help)                                              \
    {                                                                                    \
        name, scope, field, METRIC_##type, "", help                                      \
    }
#define ROW_OF(name, scope, field, type, label, help)                                    \
    {                                                                                    \
        name, scope, field, METRIC_##type, label, help                                   \
    }

#define BUFFERS_HELP "Bytes of buffers in use, by kind (docs/cluster.md, Memory)."
#define REMOVED_HELP "Rows that were removed, by reason."

const struct metric metrics[] = {
    // Every process.
    ROW_OF("tug_info", OWN, "version", TEXT, "version", "The version of tug."),
    ROW("tug_uptime_seconds", OWN, "uptime_seconds", GAUGE,
        "Time since the process began."),
    ROW("tug_cpu_seconds_total", OWN, "cpu_seconds", COUNTER,
        "CPU time of the process, user and system."),
    ROW("tug_resident_memory_bytes", OWN, "resident_bytes", GAUGE,
        "Memory of the process."),
    ROW("tug_open_files", OWN, "open_files", GAUGE, "Open descriptors of the process."),
    ROW("tug_open_files_limit", OWN, "open_files_max", GAUGE,
        "The limit of the process's descriptors."),
    ROW("tug_disk_free_bytes", DISK, "free_bytes", GAUGE,
        "Free space where the process writes: saves, cold rows, logs."),
    ROW("tug_disk_size_bytes", DISK, "size_bytes", GAUGE, "Size of that file system."),

    // A server.
    ROW("tug_request_duration_seconds", REQUESTS, "", HISTOGRAM,
        "Time from the receipt of a request to its answer, with its waiting."),
    ROW("tug_requests_waiting", LOOP, "waiting", GAUGE, "Requests that wait now."),
    ROW("tug_rows_memory_bytes", LOOP, "memory.rows", GAUGE, "Memory of rows."),
    ROW("tug_rows_memory_limit_bytes", LOOP, "memory.rows_max", GAUGE,
        "The limit of the memory of rows, 0 without."),
    ROW("tug_buffers_memory_bytes", SERVER, "memory.buffers", GAUGE,
        "Bytes of all buffers of the process."),
    ROW("tug_buffers_memory_limit_bytes", SERVER, "memory.buffers_max", GAUGE,
        "The limit of buffers."),
    ROW_OF("tug_buffers_used_bytes", SERVER, "memory.links", GAUGE, "kind=\"links\"",
           BUFFERS_HELP),
    ROW_OF("tug_buffers_used_bytes", SERVER, "memory.bodies", GAUGE, "kind=\"bodies\"",
           BUFFERS_HELP),
    ROW_OF("tug_buffers_used_bytes", SERVER, "memory.queued", GAUGE, "kind=\"queued\"",
           BUFFERS_HELP),
    ROW_OF("tug_buffers_used_bytes", SERVER, "memory.held", GAUGE, "kind=\"held\"",
           BUFFERS_HELP),
    ROW_OF("tug_buffers_used_bytes", SERVER, "memory.lists", GAUGE, "kind=\"lists\"",
           BUFFERS_HELP),
    ROW_OF("tug_buffers_used_bytes", SERVER, "memory.clocks", GAUGE, "kind=\"clocks\"",
           BUFFERS_HELP),
    ROW("tug_memory_refused_total", SERVER, "memory.refused", COUNTER,
        "Requests that were refused for lack of memory."),
    ROW("tug_links_closed_total", SERVER, "memory.closed", COUNTER,
        "Links that were closed for lack of memory."),
    ROW("tug_server_saves_total", LOOP, "saves.made", COUNTER, "Written saves."),
    ROW("tug_server_failed_saves_total", LOOP, "saves.failed", COUNTER,
        "Saves that failed."),
    ROW("tug_server_last_save_timestamp_seconds", LOOP,
        "saves.last.finished_unix_seconds", GAUGE, "When the last save ended."),
    ROW("tug_server_last_save_size_bytes", LOOP, "saves.last.bytes", GAUGE,
        "Bytes of the loop's part of the last save."),
    ROW("tug_server_last_save_duration_seconds", LOOP, "saves.last.seconds", GAUGE,
        "Time that the last save took."),

    // A table on a loop of a server.
    ROW("tug_table_rows", TABLE, "rows", GAUGE, "Rows of the table."),
    ROW("tug_table_memory_bytes", TABLE, "bytes", GAUGE, "Memory of the table."),
    ROW("tug_table_pushes_total", TABLE, "pushes", COUNTER, "Applied pushes."),
    ROW("tug_table_repeated_pushes_total", TABLE, "repeats", COUNTER,
        "Repeated pushes, which were only acknowledged."),
    ROW("tug_table_pulls_total", TABLE, "pulls", COUNTER, "Answered pulls."),
    ROW("tug_table_pushed_keys_total", TABLE, "pushed_keys", COUNTER,
        "Keys of applied pushes."),
    ROW("tug_table_pulled_keys_total", TABLE, "pulled_keys", COUNTER,
        "Keys of answered pulls."),
    ROW("tug_table_examples_total", TABLE, "examples", COUNTER,
        "Examples that the pushes came from."),
    ROW("tug_table_pulls_waiting", TABLE, "held", GAUGE, "Pulls that wait now."),
    ROW("tug_table_clock", TABLE, "clock", GAUGE,
        "The slowest worker's clock, -1 if no worker is waited for."),
    ROW("tug_table_refused_keys_total", TABLE, "refused", COUNTER,
        "Keys that the entry policy refused a row."),
    ROW("tug_table_left_out_updates_total", TABLE, "left_out", COUNTER,
        "Updates left out because the rule's state would have become infinite."),
    ROW("tug_table_made_rows_total", TABLE, "made", COUNTER, "Rows that were made."),
    ROW_OF("tug_table_removed_rows_total", TABLE, "removed.score", COUNTER,
           "reason=\"score\"", REMOVED_HELP),
    ROW_OF("tug_table_removed_rows_total", TABLE, "removed.age", COUNTER,
           "reason=\"age\"", REMOVED_HELP),
    ROW_OF("tug_table_removed_rows_total", TABLE, "removed.ttl", COUNTER,
           "reason=\"ttl\"", REMOVED_HELP),
    ROW_OF("tug_table_removed_rows_total", TABLE, "removed.budget", COUNTER,
           "reason=\"budget\"", REMOVED_HELP),
    ROW("tug_table_cold_rows", TABLE, "cold.rows", GAUGE, "Rows on disk."),
    ROW("tug_table_cold_size_bytes", TABLE, "cold.bytes", GAUGE,
        "Bytes of rows on disk."),
    ROW("tug_table_cold_hits_total", TABLE, "cold.hits", COUNTER,
        "Uses of rows that were in memory, in tables with rows on disk."),
    ROW("tug_table_cold_reads_total", TABLE, "cold.reads", COUNTER,
        "Rows read from disk."),
    ROW("tug_table_cold_writes_total", TABLE, "cold.writes", COUNTER,
        "Rows moved to disk."),
    ROW("tug_table_staleness_limit", TABLE, "staleness", GAUGE,
        "Clocks by which a worker may be ahead of the slowest one (ssp)."),
    ROW("tug_table_worker_clock", CLOCK, "clock", GAUGE, "A worker's clock."),
    ROW("tug_table_worker_behind", CLOCK, "behind", GAUGE,
        "Clocks by which a worker is behind the fastest one."),

    // `tug train` in one process.
    ROW("tug_trained_table_rows", TRAINED, "rows", GAUGE, "Rows of the table."),
    ROW("tug_trained_table_memory_bytes", TRAINED, "bytes", GAUGE,
        "Memory of the table."),

    // The scheduler.
    ROW_OF("tug_phase", OWN, "phase", TEXT, "phase",
           "The phase of the cluster: gathering, running, over, ending."),
    ROW("tug_servers_wanted", OWN, "servers_wanted", GAUGE, "Servers of the cluster."),
    ROW("tug_workers_wanted", OWN, "workers_wanted", GAUGE, "Workers of the cluster."),
    ROW("tug_placement_epoch", OWN, "epoch", GAUGE, "The number of the placement."),
    ROW("tug_operations_total", OWN, "operations_seen", COUNTER,
        "Joins, deaths, orders, saves and other operations."),
    ROW("tug_placement_max_over_mean_ratio", SPACE, "max_over_mean", GAUGE,
        "Partitions of the fullest loop, relative to the mean."),
    ROW("tug_node_up", NODE, "alive", GAUGE, "1 while the node is alive."),
    ROW("tug_node_left", NODE, "left", GAUGE, "1 if the node has left in order."),
    ROW("tug_node_silence_seconds", NODE, "seconds_since_sign", GAUGE,
        "Time since the node's last message."),
    ROW("tug_node_clock_skew_seconds", NODE, "clock_skew_seconds", GAUGE,
        "The node's clock compared with the scheduler's."),
    ROW("tug_worker_read_examples_total", WORKERS, "examples", COUNTER,
        "Examples that the worker has finished."),
    ROW("tug_worker_pieces_held", WORKERS, "pieces_held", GAUGE,
        "Pieces of the data that the worker has now."),
    ROW("tug_worker_pieces_done_total", WORKERS, "pieces_done", COUNTER,
        "Pieces that the worker has finished."),
    ROW("tug_worker_idle_seconds", WORKERS, "seconds_since_progress", GAUGE,
        "Time since the worker's last finished piece."),

    // A training.
    ROW_OF("tug_run_state", RUN, "state", TEXT, "state",
           "The state of the run: loading, training, validating, saving, done, "
           "interrupted, failed."),
    ROW("tug_run_pass", RUN, "pass", GAUGE, "The number of the pass."),
    ROW("tug_run_passes", RUN, "passes", GAUGE, "The number of all passes."),
    ROW("tug_run_pass_done_ratio", RUN, "share", GAUGE,
        "The part of the pass that is done."),
    ROW("tug_run_pass_examples", RUN, "examples", GAUGE, "Examples of the pass so far."),
    ROW("tug_run_batches_total", RUN, "batches", COUNTER, "Batches of the run."),
    ROW("tug_run_examples_per_second", RUN, "examples_per_second", GAUGE,
        "Speed since the last progress."),
    ROW("tug_run_idle_seconds", RUN, "seconds_since_progress", GAUGE,
        "Time since the run's last progress."),
    ROW("tug_run_loss", RUN, "loss", GAUGE, "Training loss of the pass so far."),
    ROW("tug_run_auc", RUN, "auc", GAUGE, "Training AUC of the pass so far."),
    ROW("tug_run_diverged", RUN, "diverged", GAUGE,
        "1 if the run failed because weights became infinite."),
    ROW("tug_run_saves_total", RUN, "saves.made", COUNTER, "Complete saves of the run."),
    ROW("tug_run_failed_saves_total", RUN, "saves.failed", COUNTER, "Saves that failed."),
    ROW("tug_run_last_save_timestamp_seconds", RUN, "saves.last.finished_unix_seconds",
        GAUGE, "When the last save was complete."),
    ROW("tug_run_last_save_size_bytes", RUN, "saves.last.bytes", GAUGE,
        "Bytes of the last save."),
    ROW("tug_run_last_save_duration_seconds", RUN, "saves.last.seconds", GAUGE,
        "Time that the last save took."),

    // A worker.
    ROW("tug_worker_joined", OWN, "joined", GAUGE, "1 when the worker has joined."),
    ROW("tug_worker_pass", OWN, "pass", GAUGE, "The worker's pass."),
    ROW("tug_worker_batches_total", OWN, "batches", COUNTER, "Batches of the worker."),
    ROW("tug_worker_examples_total", OWN, "examples", COUNTER, "Examples of the worker."),
    ROW("tug_worker_pull_seconds_total", OWN, "pull_seconds", COUNTER,
        "Time that threads waited for rows."),
    ROW("tug_worker_compute_seconds_total", OWN, "compute_seconds", COUNTER,
        "Time that threads computed."),
    ROW("tug_worker_push_seconds_total", OWN, "push_seconds", COUNTER,
        "Time that threads spent pushing."),
    ROW("tug_worker_read_seconds_total", OWN, "read_seconds", COUNTER,
        "Time that threads spent reading data."),
    ROW("tug_worker_queue", OWN, "queue", GAUGE,
        "Batches that are being pulled, computed or pushed."),
    ROW("tug_worker_progress_age_seconds", OWN, "seconds_since_progress", GAUGE,
        "Time since the worker's last finished batch."),

    // `tug launch`.
    ROW_OF("tug_process_state", PROCESS, "state", TEXT, "state",
           "The state of the process: waiting, running, ended."),
    ROW("tug_process_exit_code", PROCESS, "code", GAUGE,
        "Its exit code, if it has ended."),
    ROW("tug_process_restarts_total", PROCESS, "restarts", COUNTER,
        "Number of times that the process was started again."),
};
const size_t metrics_n = sizeof(metrics) / sizeof(*metrics);
