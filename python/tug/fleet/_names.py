"""Paddle's names that tug.fleet does not have, with what to use instead: a table of (holder, names, answer).

If a script uses such a name of a class or module of tug.fleet, the error has the answer from this table. For a name
that is not in the table, the error suggests the most similar known name. docs/from-paddle.md ends with the table.

SPDX-License-Identifier: Apache-2.0
"""

import difflib
import sys
from typing import Any, Callable, Iterable, Optional, Sequence, Tuple

from tug._errors import UsageError

_LAYERS = ("use one of tug's nets, net(inputs, params), whose params choose its layers (docs/from-paddle.md); for "
           "other layers write your own loop over tables (docs/python.md)")
_GPU = "models train on CPUs only; use CPUPlace()"
_THREADS = "use train_from_dataset(thread=N), which sets the number of threads of a pass"
_COLLECTIVE = "tug has no collectives: parameters are rows on servers (docs/from-paddle.md)"
_SIDES = "tug has servers and workers only, on CPUs"
_GRAPH = "tug has no graph tables: rows are floats under keys, and servers do not sample neighbours"
_BOX = "BoxPS is a separate product; tug keeps rows in tables on servers, and rarely used rows in a cold tier on disk"
_INNER = "fleet.init, init_server and init_worker do its work: call these instead"
_LOOP = "a loop that computes its own gradients pushes them into tables (docs/python.md) or uses tug.torch"
_GLOO = ("workers communicate through the scheduler: use fleet.barrier_worker(), fleet.util.all_gather() and "
         "all_reduce()")
_FEDERATED = "tug has no federated learning: every worker pushes to the servers of one run"
_ATTRIBUTES = ("use init and seed of net's params, and l1 and l2 of an optimizer; each slot has rows of its own, so "
               "embeddings cannot share a name (docs/from-paddle.md)")
_PAGES = ("lines have slots only, no line id, log key or page view; merge lines in the program that writes them")
_IDS = ("lines have no id before their slots; merge the lines of an id in the program that writes them; if the id is "
        "a slot or a column, `tug train --merge-ids COLUMN:N` merges them, too (docs/data.md)")
_NICHE = "tug has no trees, phases or graphs of examples, only lines of slots"

REFUSED: Tuple[Tuple[str, str, str], ...] = (
    ("tug.fleet", "CUDAPlace CUDAPinnedPlace cuda_places cuda_pinned_places NPUPlace XPUPlace", _GPU),
    ("tug.fleet", "embedding nets nn", _LAYERS),
    ("tug.fleet", "ParamAttr WeightNormParamAttr initializer regularizer clip", _ATTRIBUTES),
    ("tug.fleet", "CountFilterEntry ProbabilityEntry ShowClickEntry",
     "a net's features have no entry policy; the program's own tables have one: entry=count:3 (docs/tables.md)"),
    ("tug.fleet", "accuracy ctr_metric_bundle exponential_decay Print concat InputSpec", _LAYERS),
    ("tug.fleet", "FetchHandler", "train_from_dataset(fetch_list=, print_period=) prints values during a pass"),
    ("tug.fleet", "seed set_device get_rank",
     "use seed of net's params, and fleet.worker_index() as the rank; models train on CPUs"),
    ("tug.fleet.static", "save_inference_model load_inference_model",
     "fleet.save_persistables saves what tug.Scorer and tug predict need; fleet.load_model loads it"),
    ("tug.fleet", "Scope scope_guard", "there is only one scope, global_scope(); make another Program for another net"),
    ("tug.fleet", "DistributeTranspiler memory_optimize release_memory",
     "fleet.init() and fleet.distributed_optimizer(...) do what transpile() did"),
    ("tug.fleet", "CompiledProgram ParallelExecutor BuildStrategy ExecutionStrategy compiler", _THREADS),
    ("tug.fleet", "LoDTensor LoDTensorArray create_lod_tensor create_random_int_lodtensor",
     "use DataFeeder.feed(), which returns arrays, and for slots with lod_level=1 values and lod"),
    ("tug.fleet", "profiler", "use `tug profile`, or exe.train_from_dataset(debug=True)"),
    ("tug.fleet", "require_version set_flags get_flags", "remove the line: tug has no flags"),
    ("tug.fleet", "SyncStrategy AsyncStrategy HalfAsyncStrategy GeoStrategy TrainerRuntimeConfig",
     "use StrategyFactory.create_..._strategy(), or DistributedStrategy"),
    ("tug.fleet", "BoxPSDataset PaddleBoxDataset",
     "use QueueDataset or InMemoryDataset; BoxPS is a separate product"),
    ("tug.fleet", "FileInstantDataset TreeIndex IndexDataset",
     "use QueueDataset or InMemoryDataset, with a pipe command for other formats"),
    ("tug.fleet", "UserDefinedCollectiveRoleMaker MPISymetricRoleMaker GeneralRoleMaker",
     "use PaddleCloudRoleMaker, whose variables `tug launch` and Paddle's launchers set"),
    ("tug.fleet", "RuntimeFactory RuntimeBase TheOnePSRuntime ParameterServerRuntime PSInfo LargeScaleKV", _INNER),
    ("tug.fleet", "HeterClient HeterServer HeterRoleMaker HeterWrapper HeterXpuTrainer HeterPipelineTrainer "
     "HeterSectionWorker HeterCpuWorker HeterBoxWorker", _SIDES),
    ("tug.fleet", "PSGPU PSGPUTrainer PSGPUWrapper PSGPUWorker GpuService GPUGraphWrapper CtrDymfAccessor", _GPU),
    ("tug.fleet", "GraphPyService GraphPyServer GraphPyClient GraphDataGenerator GraphBrpcServer GraphBrpcClient "
     "GraphBrpcService GraphGpuWrapper GraphNode", _GRAPH),
    ("tug.fleet", "Coordinator FLClient FLClientBase FLStrategy FLCommunicator ClientSelector ClientSelectorBase "
     "CoordinatorInterface ClientInfoAttr", _FEDERATED),
    ("tug.fleet", "BoxWrapper BoxPSTrainer BoxPSWorker", _BOX),
    ("tug.fleet", "dygraph disable_static in_dynamic_mode to_tensor Tensor Model no_grad grad jit",
     "programs are static here; a loop of your own uses tug.torch (docs/torch.md) or tables (docs/python.md)"),
    ("tug.fleet", "launch spawn", "start the script with tug launch --servers S --workers W -- python3 script.py, or, "
     "where only the package is installed, with python3 -m tug launch --all-roles"),
    ("tug.fleet", "init_parallel_env ParallelEnv DataParallel new_group broadcast scatter alltoall", _COLLECTIVE),
    ("layers", "*", _LAYERS),
    ("unique_name", "generate switch", "choose the names in the script"),

    ("io", "DataLoader PyReader", "use a dataset with a pipe command; or DataFeeder, for exe.run(feed=...) and tables"),
    ("io", "save_params save_vars save load_params load_vars load set_program_state load_program_state",
     "save_persistables saves the whole net; load_persistables and fleet.load_model load it"),
    ("optimizer", "Adamax AdamaxOptimizer AdamW Lamb LambOptimizer RMSProp RMSPropOptimizer Adadelta AdadeltaOptimizer "
     "LarsMomentum LarsMomentumOptimizer Dpsgd DpsgdOptimizer", "use SGD, Momentum, Adagrad, DecayedAdagrad, "
     "Adam or Ftrl; DecayedAdagrad is RMSProp without centring"),
    ("optimizer", "ExponentialMovingAverage ModelAverage", "use `tug train --average N`"),
    ("optimizer", "RecomputeOptimizer PipelineOptimizer LookaheadOptimizer DGCMomentumOptimizer", _COLLECTIVE),
    ("optimizer", "lr", "learning_rate is a number here; `tug train --schedule` has rates that change"),
    ("metrics", "Auc Accuracy ChunkEvaluator CompositeMetric DetectionMAP EditDistance MetricBase Precision Recall",
     "use layers.auc, metrics.auc(stat_pos, stat_neg), acc, mae, mse or rmse; `tug eval` has more metrics"),
    ("an optimizer", "step clear_grad clear_gradients state_dict set_state_dict", _LOOP),
    ("an optimizer", "backward apply_gradients apply_optimize", "use minimize(loss), which does both"),
    ("an optimizer", "set_lr get_lr set_lr_scheduler current_step_lr",
     "the learning rate is fixed; `tug train --schedule` has rates that change"),

    ("Program", "clone", "use exe.infer_from_dataset, which evaluates the same program without learning"),
    ("Program", "all_parameters parameters_numel", "parameters are rows on servers: use the tables of fleet.client"),
    ("Program", "current_block create_block block blocks create_var append_op", _LAYERS),

    ("fleet", "save_cache_model", "tug has no cache of a serving system to fill; client.save(mode='base') or "
     "'delta' writes those rows of the program's own tables that are worth publishing"),
    ("fleet", "save_cache_table get_cache_threshold", "tug has no cache tables; the setting 'cold' of a table keeps "
     "rarely used rows on disk"),
    ("fleet", "check_save_pre_patch_done save_multi_table_one_path save_pre_patch save_model_with_whitelist",
     "a save is complete when the call returns; client.save(mode='delta') writes what has changed since the last base"),
    ("fleet", "set_date", "days have no dates: Table.day() of the program's own table ends a day, "
     "and rows count as unseen for one more day"),
    ("fleet", "init_coordinator make_fl_strategy get_fl_client", _FEDERATED),
    ("fleet", "local_rank rank nranks world_size local_device_ids world_device_ids",
     "use worker_index() and worker_num(); servers have server_index() and server_num()"),
    ("fleet", "set_lr get_lr", "the learning rate is fixed; `tug train --schedule` has rates that change"),
    ("fleet", "step clear_grad state_dict set_state_dict", _LOOP),
    ("fleet", "distributed_model distributed_scaler amp_init get_hybrid_communicate_group get_loss_scaling "
     "collective_perf qat_init", _COLLECTIVE),
    ("fleet", "_runtime_handle _coordinator_endpoints", _INNER),
    ("fleet", "_heter_client", _SIDES),
    ("fleet", "_set_opt_info _opt_info", "net's params and the optimizer determine rows and layers"),
    ("fleet.util", "get_heter_file_shard", _SIDES),
    ("fleet.util", "save_program load_program draw_from_program_file parse_program_proto params_check proto_check",
     "a Program has one net, and files do not describe nets; `tug eval --from SAVE` shows what a save holds"),
    ("fleet.util", "set_file_system", "files are read on this machine; a pipe command can fetch them"),

    ("a role maker", "_barrier _all_gather _all_reduce barrier_worker barrier_all all_gather all_reduce", _GLOO),
    ("a role maker", "get_heter_trainer_endpoints get_next_trainers get_previous_trainers _get_next_trainers "
     "_get_previous_trainers _heter_worker_num _is_heter_worker", _SIDES),

    ("a dataset's setting", "hdfs_config fs_name fs_ugi", "files are read on this machine; a pipe command can fetch "
     "them: set_pipe_command('hadoop fs -cat ...')"),
    ("a dataset's setting", "parse_content parse_logkey merge_by_sid enable_pv_merge", _PAGES),
    ("a dataset's setting", "parse_ins_id merge_size merge_by_lineid", _IDS),
    ("a dataset's setting", "shuffle_by_uid", "an example may go to any worker; to keep the lines of one user "
     "together, put them into one file"),
    ("a dataset's setting", "use_ps_gpu", "tug has no tables on GPUs"),
    ("a dataset's setting", "generate_unique_feasigns gpu_graph_mode graph_config", _NICHE),
    ("a dataset", "enable_pv_merge preprocess_instance postprocess_instance set_current_phase get_pv_data_size",
     _PAGES),
    ("a dataset", "set_merge_by_lineid", _IDS),
    ("a dataset", "set_date", "lines have no date; Table.day(), or mode=3 of a save, ends a day of the rows"),
    ("a dataset", "_prepare_to_run _finish_to_run _dynamic_adjust_before_train _dynamic_adjust_after_train "
     "create_channel",
     "a pass reads the files itself: call exe.train_from_dataset(program, dataset)"),
    ("a dataset", "tdm_sample generate_local_tables_unlock set_graph_config set_gpu_graph_mode get_epoch_finish "
     "dump_walk_path dump_sample_neighbors", _NICHE),
    ("a QueueDataset", "local_shuffle global_shuffle load_into_memory release_memory set_fea_eval slots_shuffle "
     "preload_into_memory wait_preload_done get_memory_data_size get_shuffle_data_size",
     "files are streamed; use InMemoryDataset"),

    ("a trainer", "*", "use exe.train_from_dataset(program, dataset, thread=N) for a pass; the dataset and `thread` "
     "are its settings"),
    ("strategy", "get_program_config get_trainer_runtime_config get_server_runtime_config get_execute_strategy "
     "get_build_strategy save_to_prototxt load_from_prototxt", "use the fields a_sync and a_sync_configs; "
     "print(strategy) shows them"),
    ("FleetWrapper", "set_graph_config graph_load graph_sample_neighbors load_edge_file load_node_file pull_graph_list "
     "sample_neighbors get_node_feat add_graph_node remove_graph_node", _GRAPH),
    ("FleetWrapper", "push_fl_client_info_sync pull_fl_strategy init_fl_worker query_fl_clients_info", _FEDERATED),
    ("FleetWrapper", "flush client_flush confirm", "a request is done when its call returns; Communicator.stop() sends "
     "all queued pushes"),
    ("FleetWrapper", "finalize_worker", "use stop_worker(), which waits for all requests and leaves the run"),
    ("FleetWrapper", "set_date", "days have no dates: Table.day(), or mode=3 of a save, ends a day of the rows"),
    ("FleetWrapper", "set_file_num_one_shard set_pull_local_thread_num set_client2client_config",
     "remove the line: saves have a file for each part of the servers' rows, and requests need no threads"),
    ("FleetWrapper", "revert check_save_pre_patch_done save_cache get_cache_threshold cache_shuffle save_cache_table",
     "saves hold rows as they are; client.save(mode='delta') writes what has changed since the last base"),
    ("Communicator", "start_coordinator save_fl_strategy query_fl_clients_info", _FEDERATED),
    ("Communicator", "is_recovery", "a restarted worker creates its communicator again"),
)


class NoSuchName(UsageError, AttributeError):
    """An object has no attribute of this name; the message says what to use."""


def answer_for(holders: Iterable[str], name: str) -> Optional[str]:
    """Returns what to use instead of `name`, which none of these objects has; None if REFUSED has no entry for it."""
    for holder in holders:
        for where, names, answer in REFUSED:
            if where == holder and (name in names.split() or names == "*"):
                return answer
    return None


def no_such(holders: Sequence[str], name: str, there: Iterable[str]) -> NoSuchName:
    """Returns the error for a name that none of these holders has; the message calls the object by the first holder."""
    answer = answer_for(holders, name)
    if answer is not None:
        return NoSuchName(f"{holders[0]} has no '{name}': {answer}")
    near = difflib.get_close_matches(name, [one for one in there if not one.startswith("_")], 1)
    return NoSuchName(f"{holders[0]} has no '{name}'; " +
                      (f"did you mean '{near[0]}'?" if near else "docs/from-paddle.md lists the replacements"))


class _NamedClass(type):
    holders: Tuple[str, ...]

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise no_such(cls.holders or (cls.__name__,), name, dir(cls))


class Named(metaclass=_NamedClass):
    """A base class whose objects and subclasses take the errors for missing attributes from the table. `holders`: the
    names under which the table lists the class, its own name first."""

    holders: Tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy, pickle and others look for such names
            raise AttributeError(name)
        raise no_such(self.holders or (type(self).__name__,), name, dir(type(self)))


def of_module(module: str, holder: str) -> Callable[[str], Any]:
    """Returns a __getattr__ for a module. Its errors have the table's answers for `holder`."""
    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise no_such([holder, "tug.fleet"], name, dir(sys.modules[module]))

    return find


def markdown() -> str:
    """Returns the table as Markdown, for the end of docs/from-paddle.md."""
    rows = []
    for holder, names, answer in REFUSED:
        shown = "anything else" if names == "*" else ", ".join(f"`{name}`" for name in names.split())
        rows.append(f"| {holder} | {shown} | {answer} |\n")
    return "| module or class | names of Paddle's | use instead |\n|---|---|---|\n" + "".join(rows)
