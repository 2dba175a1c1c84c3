"""DistributedStrategy: the settings of a run, most of all the mode of synchronisation.

A field either has its effect or is refused with the reason. A field that is accepted but ignored, as some are in
Paddle, looks as if it worked.

SPDX-License-Identifier: Apache-2.0
"""

from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional, Tuple

from tug._arrays import whole
from tug._errors import ArgumentTypeError, UsageError
from tug.fleet._names import Named, answer_for
from tug.fleet._trainer_options import check_options

_IGNORED_THERE = "Paddle accepts it and ignores it"
_REFUSED_CONFIGS = {
    "max_merge_var_num": "each batch's gradients are one push, and are never merged with the next one's",
    "send_queue_size": "each thread sends one push while it computes the next batch",
    "independent_recv_thread": "the rows of each batch are pulled before it is computed",
    "min_send_grad_num_before_recv": "the rows of each batch are pulled before it is computed",
    "thread_pool_size": "requests need no threads",
    "send_wait_times": "pushes are sent at once",
    "runtime_split_send_recv": "a push is always split by server",
    "lr_decay_steps": "the setting `rate` of a table is the schedule of its learning rate (docs/tables.md)",
    "launch_barrier": "a run always begins when all processes have joined",
    "use_ps_gpu": "tug has no tables on GPUs",
    "use_gpu_graph": "tug has no tables on GPUs",
    "heter_worker_device_guard": "tug has no heterogeneous workers",
}
# Paddle's defaults, which are accepted and change nothing; the default of a setting that is not listed is False.
_DEFAULTS_OF_CONFIGS = {"max_merge_var_num": 1, "send_queue_size": 16, "min_send_grad_num_before_recv": 1,
                        "thread_pool_size": 1, "send_wait_times": 1, "lr_decay_steps": 10,
                        "independent_recv_thread": False, "launch_barrier": True, "use_ps_gpu": 0, "use_gpu_graph": 0,
                        "heter_worker_device_guard": "cpu"}
_COLLECTIVE = "tug has no collectives"
_OF_NET = ("net()'s params and the optimizer determine the table of features; for a feature lifecycle make tables of "
           "your own (docs/tables.md)")
_GPU = "models train on CPUs"
_FEDERATED = "tug has no federated learning"
_REFUSED = {
    "fleet_desc_configs": _OF_NET,
    "adam_d2sum": "nets do not support this rule; use optimizer.Adam",
    "is_fl_ps_mode": _FEDERATED,
    "with_coordinator": _FEDERATED,
    "split_data": "fleet.util.get_file_shard divides the files",
    "fs_client_param": "this process reads the files; use a pipe command for remote ones",
    "sparse_table_configs": _OF_NET,
    "downpour_table_param": _OF_NET,
    "geo_sgd_mode": "a_sync_configs={'k_steps': K} selects GEO",
    "auto": "set a_sync yourself: tug does not guess the mode",
    "auto_search": "set a_sync yourself: tug does not guess the mode",
    "use_ps_gpu": "tug has no tables on GPUs",
    "amp": "tug computes with 32-bit floats",
    "localsgd": "a_sync_configs={'k_steps': K} selects GEO",
    "adaptive_localsgd": "a_sync_configs={'k_steps': K} selects GEO",
    "lamb": "use an optimizer of fluid.optimizer",
    "lars": "use an optimizer of fluid.optimizer",
    "gradient_merge": "the gradients of each batch are one push; use set_batch_size for larger batches",
    "elastic": "workers can always join a pass",
    "cudnn_exhaustive_search": _GPU,
    "conv_workspace_size_limit": _GPU,
    "cudnn_batchnorm_spatial_persistent": _GPU,
    "sync_batch_norm": "nets have no batch norm",
    "build_strategy": "use train_from_dataset(thread=N), which sets the number of threads of a pass",
    "execution_strategy": "use train_from_dataset(thread=N), which sets the number of threads of a pass",
    **dict.fromkeys(("recompute", "dgc", "pipeline", "sharding", "heter_ccl_mode", "sync_nccl_allreduce",
                     "nccl_comm_num", "use_hierarchical_allreduce", "hierarchical_allreduce_inter_nranks",
                     "fuse_all_reduce_ops", "fuse_grad_size_in_MB", "fuse_grad_size_in_TFLOPS",
                     "fuse_grad_size_in_num", "fuse_grad_merge", "last_comm_group_size_MB", "find_unused_parameters",
                     "tensor_parallel", "without_graph_optimization", "calc_comm_same_stream", "fp16_allreduce", "asp",
                     "qat", "semi_auto", "gradient_scale_configs", "hybrid_configs"), _COLLECTIVE),
}
# Paddle's defaults that are not in _NOTHING; several where versions of Paddle differ.
_DEFAULTS: Dict[str, Tuple[Any, ...]] = {
    "sync_nccl_allreduce": (True,), "nccl_comm_num": (1,), "hierarchical_allreduce_inter_nranks": (1,),
    "fuse_all_reduce_ops": (True,), "fuse_grad_size_in_MB": (32,), "fuse_grad_size_in_TFLOPS": (50,),
    "fuse_grad_size_in_num": (8,), "last_comm_group_size_MB": (1,), "cudnn_exhaustive_search": (False, True),
    "conv_workspace_size_limit": (512, 4000), "cudnn_batchnorm_spatial_persistent": (False, True),
    "without_graph_optimization": (False, True), "split_data": (False, True)}
# Paddle's defaults of the fields of ..._configs.
_DEFAULTS_OF: Dict[str, Dict[str, Any]] = {
    "recompute_configs": {"checkpoints": [], "enable_offload": False, "checkpoint_shape": []},
    "amp_configs": {"init_loss_scaling": 32768.0, "incr_every_n_steps": 1000, "decr_every_n_nan_or_inf": 2,
                    "incr_ratio": 2.0, "decr_ratio": 0.8, "use_dynamic_loss_scaling": True, "custom_white_list": [],
                    "custom_black_list": [], "custom_black_varnames": [], "use_pure_fp16": False,
                    "use_fp16_guard": True, "use_optimizer_fp16": False, "use_pure_bf16": False},
    "localsgd_configs": {"k_steps": 1, "begin_step": 1},
    "adaptive_localsgd_configs": {"init_k_steps": 1, "begin_step": 1},
    "gradient_merge_configs": {"k_steps": 1, "avg": True},
    "dgc_configs": {"rampup_begin_step": 0, "rampup_step": 1, "sparsity": []},
    "lars_configs": {"lars_coeff": 0.001, "lars_weight_decay": 0.0005, "epsilon": 0.0, "exclude_from_weight_decay": []},
    "lamb_configs": {"lamb_weight_decay": 0.01, "exclude_from_weight_decay": []},
    "pipeline_configs": {"micro_batch": 1, "micro_batch_size": 1, "accumulate_steps": 1, "schedule_mode": "1F1B",
                         "p2p_cache_shape": True, "enable_partial_send_recv": True},
    "sharding_configs": {"sharding_segment_strategy": "segment_broadcast_MB", "segment_broadcast_MB": 32.0,
                         "segment_anchors": [], "sharding_degree": 8, "mp_degree": 1, "dp_degree": 1,
                         "hybrid_dp": False, "gradient_merge_acc_step": 1, "optimize_offload": False,
                         "pp_allreduce_in_optimize": False, "pp_degree": 1, "optimize_cast": False, "stage": 1},
    "hybrid_configs": {"dp_degree": -1, "mp_degree": 1, "pp_degree": 1, "sharding_degree": 1, "sep_degree": 1,
                       "order": ["dp", "pp", "sharding", "sep", "mp"]},
    "tensor_parallel_configs": {"tensor_parallel_degree": 1, "tensor_init_seed": -1},
    "qat_configs": {"channel_wise_abs_max": True, "weight_bits": 8, "activation_bits": 8, "not_quant_pattern": [],
                    "algo": ""},
    "gradient_scale_configs": {"scale_strategy": "avg", "scale_gradient": False},
}
# Values that mean that a field is not set.
_NOTHING: Tuple[Any, ...] = (False, None, 0, "", {}, [])


def _default_of(name: str) -> Any:
    """Returns the default of one of Paddle's fields."""
    return dict(_DEFAULTS_OF[name]) if name in _DEFAULTS_OF else _DEFAULTS.get(name, (
        {} if name.endswith(("_configs", "_param")) else None if name.endswith("_strategy") else False,))[0]


def _is_default(name: str, value: Any) -> bool:
    if name in _DEFAULTS_OF:
        known = _DEFAULTS_OF[name]
        return isinstance(value, Mapping) and all(key in known and value[key] == known[key] for key in value)
    return any(value is one or (type(value) is type(one) and value == one) for one in _DEFAULTS.get(name, _NOTHING))


def _why(name: str) -> Optional[str]:
    """Returns the reason why one of Paddle's fields accepts only its default, or None if Paddle has no such field."""
    found = _REFUSED.get(name)
    if found is None and name in _DEFAULTS_OF:
        found = _REFUSED.get(name[:-len("_configs")], _COLLECTIVE)
    return found


class DistributedStrategy:
    """The settings of a run: a_sync (True: workers do not wait for each other; False: each batch waits for all workers)
    and a_sync_configs ({"k_steps": K}, K > 0 selects GEO). Fields of Paddle's that have no effect here accept only
    their defaults."""

    def __init__(self) -> None:
        self._fields: Dict[str, Any] = {"a_sync": True, "a_sync_configs": MappingProxyType({"k_steps": 0}),
                                        "trainer_desc_configs": MappingProxyType({})}
        self._half = False

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_fields", {})
        if name in fields:
            return fields[name]
        if _why(name) is not None:
            return _default_of(name)
        raise AttributeError(self._unknown(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_fields", "_half"):
            object.__setattr__(self, name, value)
            return
        check = {"a_sync": _switch, "a_sync_configs": _configs, "trainer_desc_configs": _trainer}.get(name)
        if check is not None:
            self._fields[name] = check(name, value)
        elif _why(name) is None or not _is_default(name, value):
            raise UsageError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        answer = _why(name) or answer_for(["strategy"], name)
        if answer is not None:
            return f"strategy.{name}: {answer}"
        return f"strategy.{name}: there is no such field; there are {', '.join(self._fields)}"

    @property
    def sync(self) -> bool:
        """Whether each batch waits for all workers."""
        return not self._fields["a_sync"]

    @property
    def mode(self) -> str:
        """The value of the option --mode of `tug train`."""
        steps = self._fields["a_sync_configs"].get("k_steps", 0)
        if self.sync:
            if steps > 0:
                raise UsageError("strategy: a_sync=False and k_steps > 0, GEO, exclude each other")
            return "sync"
        return f"geo:{steps}" if steps > 0 else "half-async" if self._half else "async"

    @staticmethod
    def half_async() -> "DistributedStrategy":
        """Returns the strategy of mode half-async: the threads of a worker compute a batch together, and workers do not
        wait for each other."""
        strategy = DistributedStrategy()
        strategy._half = True
        return strategy

    def __repr__(self) -> str:
        shown = {name: dict(value) if isinstance(value, Mapping) else value for name, value in self._fields.items() if
                 value or name != "trainer_desc_configs"}
        return f"DistributedStrategy({shown})"


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"strategy.{name}: must be True or False, not {type(value).__name__}")
    return value


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(f"strategy.{name}: must be a dict, not {type(value).__name__}")
    return value


def _trainer(name: str, value: Any) -> Mapping[str, Any]:
    return MappingProxyType(dict(check_options(value, f"strategy.{name}")))


def _configs(name: str, value: Any) -> Mapping[str, Any]:
    for field, given in _mapping(name, value).items():
        if field in _REFUSED_CONFIGS:
            if given == _DEFAULTS_OF_CONFIGS.get(field, False):
                continue
            raise UsageError(f"strategy.{name}['{field}']: {_IGNORED_THERE}; here it is refused: "
                             f"{_REFUSED_CONFIGS[field]}")
        if field != "k_steps":
            raise UsageError(f"strategy.{name}: there is no field '{field}'; there is k_steps")
        whole(given, f"strategy.{name}['k_steps']", -1, 2 ** 31)  # -1 is Paddle's default and counts as 0
    # A read-only mapping, because setting a single item would bypass these checks.
    return MappingProxyType({"k_steps": max(value.get("k_steps", 0), 0)})


class DistributeTranspilerConfig:
    """Paddle 1.x's settings of a run. sync_mode, half_async, geo_sgd_mode and geo_sgd_need_push_nums select the mode
    (sync_mode=True is a_sync=False); the other fields accept only what tug does."""

    _REFUSED: Dict[str, Tuple[List[Any], str]] = {
        "slice_var_up": ([True], "rows are always spread over all servers"),
        "split_method": ([None, "RoundRobin", "HashName"], "keys are placed by hash"),
        "min_block_size": ([8192], "blocks of dense parameters have 256 floats"),
        "runtime_split_send_recv": ([False, True], "a push is always split by server"),
        "enable_dc_asgd": ([False], "there is no delay compensation"),
        "wait_port": ([True], "a run always begins when all processes have joined"),
        "mode": (["pserver"], "there are parameter servers only"),
    }

    def __init__(self) -> None:
        self.sync_mode, self.half_async, self.geo_sgd_mode = True, False, False
        self.geo_sgd_need_push_nums = 100

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("sync_mode", "half_async", "geo_sgd_mode"):
            object.__setattr__(self, name, _switch(name, value))
            return
        if name == "geo_sgd_need_push_nums":
            object.__setattr__(self, name, whole(value, name, 1, 2 ** 31))
            return
        if name not in self._REFUSED:
            raise UsageError(f"DistributeTranspilerConfig.{name}: there is no such field; there are sync_mode, "
                             f"half_async, geo_sgd_mode, geo_sgd_need_push_nums, {', '.join(self._REFUSED)}")
        allowed, why = self._REFUSED[name]
        if value not in allowed:
            raise UsageError(f"DistributeTranspilerConfig.{name}: cannot be {value!r}: {why}")


class StrategyFactory(Named):
    """Makes the strategies under Paddle 1.x's names."""

    @staticmethod
    def create_sync_strategy() -> DistributedStrategy:
        """Returns the strategy in which each batch waits for all workers."""
        strategy = DistributedStrategy()
        strategy.a_sync = False
        return strategy

    @staticmethod
    def create_async_strategy() -> DistributedStrategy:
        """Returns the strategy in which workers do not wait for each other."""
        return DistributedStrategy()

    @staticmethod
    def create_half_async_strategy() -> DistributedStrategy:
        """Returns the strategy in which the threads of a worker compute a batch together."""
        return DistributedStrategy.half_async()

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> DistributedStrategy:
        """Returns the strategy in which workers train copies of the rows, and exchange changes every update_frequency
        batches."""
        strategy = DistributedStrategy()
        strategy.a_sync_configs = {"k_steps": whole(update_frequency, "update_frequency", 1, 2 ** 31)}
        return strategy


def strategy_of(given: Any) -> DistributedStrategy:
    """Returns a strategy, a DistributeTranspilerConfig or None (the default strategy) as a DistributedStrategy."""
    if given is None:
        return DistributedStrategy()
    if isinstance(given, DistributeTranspilerConfig):
        made = DistributedStrategy.half_async() if given.half_async else DistributedStrategy()
        made.a_sync = not given.sync_mode or given.half_async or given.geo_sgd_mode
        if given.geo_sgd_mode:
            made.a_sync_configs = {"k_steps": given.geo_sgd_need_push_nums}
        return made
    if not isinstance(given, DistributedStrategy):
        raise ArgumentTypeError(f"strategy: must be a DistributedStrategy, not {type(given).__name__}")
    return given
