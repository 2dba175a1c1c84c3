// The flags of Paddle's first version, and their answers here; see v0_internal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cli/v0_internal.h"

static const struct v0_flag flags[] = {
    {.name = "num_passes", .fate = V0_IS, .to = "epochs"},
    {.name = "trainer_count", .fate = V0_IS, .to = "threads"},
    {.name = "save_dir", .fate = V0_IS, .to = "out"},
    {.name = "saving_period", .fate = V0_IS, .to = "save-every", .so = "0"},
    {.name = "saving_period_by_batches",
     .fate = V0_ENDING,
     .to = "save-every",
     .so = "0",
     .say = "batches"},
    {.name = "log_period", .fate = V0_IS, .to = "log-every"},
    {.name = "dot_period", .fate = V0_IS, .to = "dot-every"},
    {.name = "init_model_path", .fate = V0_IS, .to = "init-from"},
    {.name = "save_only_one",
     .fate = V0_IS,
     .is_bool = true,
     .to = "keep",
     .no = "1000000"}, // keeps as many saves as tug can
    {.name = "use_gpu",
     .fate = V0_SO,
     .is_bool = true,
     .so = V0_FALSE,
     .say = "models train on CPUs; give --use_gpu=0"},
    {.name = "start_pass",
     .fate = V0_SO,
     .so = "0",
     .say = "--resume continues a run from its last save, whose pass it knows"},
    {.name = "test_period",
     .fate = V0_SO,
     .so = "0",
     .say = "--valid is scored after each pass"},
    {.name = "average_test_period",
     .fate = V0_SO,
     .so = "0",
     .say = "with --average N, --valid and --test score the averaged model"},
    {.name = "show_parameter_stats_period",
     .fate = V0_SO,
     .so = "0",
     .say = "--fetch NAME,... prints parameters every --fetch-every batches"},
    {.name = "job",
     .fate = V0_SO,
     .so = "train",
     .say =
         "'tug eval' tests a saved model, and gradients are checked by tug's own tests"},
    {.name = "load_missing_parameter_strategy",
     .fate = V0_SO,
     .so = "rand",
     .say = "a parameter that a save lacks begins as in a new run"},
    {.name = "start_pserver",
     .fate = V0_SO,
     .is_bool = true,
     .so = V0_FALSE,
     .say = "'tug pserver' runs servers, and 'tug launch' servers and workers"},
    {.name = "rdma_tcp",
     .fate = V0_SO,
     .so = "tcp",
     .say = "links are TCP; give --rdma_tcp=tcp"},
    {.name = "use_old_updater",
     .fate = V0_SO,
     .is_bool = true,
     .so = V0_FALSE,
     .say = "--in-flight 1 waits for each push before the next pull"},
    {.name = "config_args",
     .fate = V0_WRONG,
     .say = "give each option by itself, or by --set NAME=VALUE"},
    {.name = "comment", .fate = V0_NONE},
    {.name = "log_period_server", .fate = V0_NONE},
    {.name = "ports_num", .fate = V0_NONE},
    {.name = "ports_num_for_sparse", .fate = V0_NONE},
    {.name = "parallel_thread_num", .fate = V0_NONE},
    {.name = "pserver_num_threads", .fate = V0_NONE},
    {.name = "small_messages", .fate = V0_NONE, .is_bool = true},
    {.name = "loadsave_parameters_in_pserver", .fate = V0_NONE, .is_bool = true},
    {.name = "local", .fate = V0_PLACE, .is_bool = true},
    {.name = "pservers", .fate = V0_PLACE},
    {.name = "port", .fate = V0_PLACE},
    {.name = "nics", .fate = V0_PLACE},
    {.name = "trainer_id", .fate = V0_PLACE},
    {.name = "num_gradient_servers", .fate = V0_PLACE},
    {.name = "parallel_nn",
     .fate = V0_SO,
     .is_bool = true,
     .so = V0_FALSE,
     .say = "models train on CPUs, where --trainer_count threads share the examples"},
    {.name = "show_layer_stat",
     .fate = V0_SO,
     .is_bool = true,
     .so = V0_FALSE,
     .say = "--fetch NAME,... prints the parameters of layers"},
    {.name = "prev_batch_state",
     .fate = V0_SO,
     .is_bool = true,
     .so = V0_FALSE,
     .say = "models have no recurrent layers"},
    {.name = "test_pass",
     .fate = V0_SO,
     .so = "-1",
     .say = "'tug eval --from DIR/save-NNNNNN' tests the model of a pass"},
    {.name = "test_wait",
     .fate = V0_SO,
     .is_bool = true,
     .so = V0_FALSE,
     .say = "--valid is scored after each pass, and 'tug eval' tests a saved model"},
    {.name = "distribute_test",
     .fate = V0_SO,
     .is_bool = true,
     .so = V0_FALSE,
     .say = "with --score-by workers all trainers score --valid and --test"},
    {.name = "model_list",
     .fate = V0_SO,
     .say = "'tug eval --from DIR/save-NNNNNN' tests one saved model"},
    {.name = "predict_file",
     .fate = V0_SO,
     .say = "'tug predict --from DIR --data FILE --out FILE' writes predictions"},
    {.name = "predict_output_dir",
     .fate = V0_SO,
     .say = "'tug predict --from DIR --data FILE --out FILE' writes predictions"},
    {.name = "log_dir", .fate = V0_IS, .to = "log-dir"},
    {.name = "config", .fate = V0_SAME},
    {.name = "seed", .fate = V0_SAME},
    {.name = "test_all_data_in_one_period", .fate = V0_NONE, .is_bool = true},
    {.name = "log_clipping", .fate = V0_NONE, .is_bool = true},
    {.name = "log_error_clipping", .fate = V0_NONE, .is_bool = true},
    {.name = "gpu_id", .fate = V0_NONE},
    {.name = "async_count", .fate = V0_NONE},
    {.name = "async_lagged_ratio_min", .fate = V0_NONE},
    {.name = "async_lagged_ratio_default", .fate = V0_NONE},
    {.name = "logtostderr", .fate = V0_NONE, .is_bool = true},
    {.name = "alsologtostderr", .fate = V0_NONE, .is_bool = true},
    {.name = "colorlogtostderr", .fate = V0_NONE, .is_bool = true},
    {.name = "log_prefix", .fate = V0_NONE, .is_bool = true},
    {.name = "minloglevel", .fate = V0_NONE},
    {.name = "stderrthreshold", .fate = V0_NONE},
    {.name = "v", .fate = V0_NONE},
    {.name = "vmodule", .fate = V0_NONE},
    {.name = "logbufsecs", .fate = V0_NONE},
    {.name = "max_log_size", .fate = V0_NONE},
    {.name = "rnn_use_batch", .fate = V0_NONE, .is_bool = true},
    {.name = "beam_size", .fate = V0_NONE},
    {.name = "checkgrad_eps", .fate = V0_NONE},
    {.name = "cuda_dir", .fate = V0_NONE},
    {.name = "cudnn_dir", .fate = V0_NONE},
    {.name = "warpctc_dir", .fate = V0_NONE},
    {.name = "nccl_dir", .fate = V0_NONE},
    {.name = "cudnn_conv_workspace_limit_in_mb", .fate = V0_NONE},
    {.name = "allow_only_one_model_on_one_gpu", .fate = V0_NONE, .is_bool = true},
    {.name = "enable_grad_share", .fate = V0_NONE},
    {.name = "grad_share_block_num", .fate = V0_NONE},
    {.name = "thread_local_rand_use_global_seed", .fate = V0_NONE, .is_bool = true},
    {.name = "memory_threshold_on_load_data", .fate = V0_NONE},
    {.name = "parameter_block_size", .fate = V0_NONE},
    {.name = "parameter_block_size_for_sparse", .fate = V0_NONE},
    {.name = "sock_send_buf_size", .fate = V0_NONE},
    {.name = "sock_recv_buf_size", .fate = V0_NONE},
    {.name = "sock_listen_queue_size", .fate = V0_NONE},
    {.name = "log_barrier_abstract", .fate = V0_NONE, .is_bool = true},
    {.name = "log_barrier_lowest_nodes", .fate = V0_NONE},
    {.name = "log_barrier_show_log", .fate = V0_NONE, .is_bool = true},
    {.name = "check_sparse_distribution_batches", .fate = V0_NONE},
    {.name = "check_sparse_distribution_ratio", .fate = V0_NONE},
    {.name = "check_sparse_distribution_unbalance_degree", .fate = V0_NONE},
    {.name = "check_sparse_distribution_in_pserver", .fate = V0_NONE, .is_bool = true},
    {.name = "show_check_sparse_distribution_log", .fate = V0_NONE, .is_bool = true},
    {.name = "enable_parallel_vector", .fate = V0_NONE},
    {.name = "use_mkldnn", .fate = V0_NONE, .is_bool = true},
    {.name = "use_mkldnn_wgt", .fate = V0_NONE, .is_bool = true},
    {.name = "use_mklpack", .fate = V0_NONE, .is_bool = true},
};

static bool named(const char *word, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(word, name, len) == 0;
}

const struct v0_flag *v0_flag(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        if (named(name, len, flags[i].name))
            return &flags[i];
    return NULL;
}

const struct v0_flag *v0_flag_of(const char *word, const char **ret_eq, bool *ret_no)
{
    size_t dashes = strspn(word, "-");
    const char *name = word + dashes, *eq = strchr(name, '=');
    size_t len = eq != NULL ? (size_t)(eq - name) : strlen(name);
    *ret_eq = eq != NULL ? eq + 1 : NULL;
    *ret_no = false;
    if (dashes < 1 || dashes > 2 || (dashes == 1 && len == 1))
        return NULL;
    const struct v0_flag *f = v0_flag(name, len);
    if (f != NULL || eq != NULL || len <= 2 || memcmp(name, "no", 2) != 0)
        return f;
    *ret_no = true;
    f = v0_flag(name + 2, len - 2);
    return f != NULL && f->is_bool ? f : NULL;
}
