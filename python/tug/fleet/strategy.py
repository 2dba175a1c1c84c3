"""DistributedStrategy: how far workers may run ahead of each other, and what rows are like.

A field does what it says, or is refused with the reason: what Paddle accepts and ignores would look as if it
worked.

SPDX-License-Identifier: Apache-2.0
"""

from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Tuple

from tug._arrays import whole
from tug._errors import ArgumentTypeError, UsageError
from tug.fleet._names import answer_for

_IGNORED_THERE = "Paddle accepts it and ignores it"
_REFUSED_CONFIGS = {
    "max_merge_var_num": "each batch's gradients are one push, and are never merged with the next one's",
    "send_queue_size": "a worker's thread has one push on its way while it computes the next batch",
    "independent_recv_thread": "each batch's rows are pulled before it",
    "min_send_grad_num_before_recv": "each batch's rows are pulled before it",
    "thread_pool_size": "requests need no threads",
    "send_wait_times": "nothing is waited for before a push is sent",
    "runtime_split_send_recv": "a push is always split by server",
    "lr_decay_steps": "rates follow `rate` of a table (docs/tables.md)",
    "launch_barrier": "a run always begins when all processes are there",
    "use_ps_gpu": "there are no tables on GPUs",
    "use_gpu_graph": "there are no tables on GPUs",
    "heter_worker_device_guard": "there are no heterogeneous workers",
}
# Paddle's own; what is not named is False there. Said or not, they mean what is done here.
_DEFAULTS_OF_CONFIGS = {"max_merge_var_num": 1, "send_queue_size": 16, "min_send_grad_num_before_recv": 1,
                        "thread_pool_size": 1, "send_wait_times": 1, "lr_decay_steps": 10,
                        "independent_recv_thread": False, "launch_barrier": True, "use_ps_gpu": 0, "use_gpu_graph": 0,
                        "heter_worker_device_guard": "cpu"}
_COLLECTIVE = "there are no collectives here"
_OF_NET = ("the table of features follows from net()'s params and the optimizer; rows that come and go are tables "
           "of the program's own (docs/tables.md)")
_REFUSED = {
    "fleet_desc_configs": _OF_NET,
    "adam_d2sum": "there is no such rule; give optimizer.Adam",
    "is_fl_ps_mode": "there is no federated learning",
    "with_coordinator": "there is no federated learning",
    "split_data": "files are shared by fleet.util.get_file_shard",
    "trainer_desc_configs": "dumps of a pass are `tug train --dump`'s",
    "fs_client_param": "files are read by this process; what lies elsewhere, by a pipe command",
    "sparse_table_configs": _OF_NET,
    "geo_sgd_mode": "a_sync_configs={'k_steps': K} asks for GEO",
    "auto": "nothing is guessed: say a_sync",
    "use_ps_gpu": "there are no tables on GPUs",
    "amp": "floats have 32 bits",
    "recompute": _COLLECTIVE,
    "localsgd": "a_sync_configs={'k_steps': K} asks for GEO",
    "dgc": _COLLECTIVE,
    "lamb": "give an optimizer of fluid.optimizer",
    "lars": "give an optimizer of fluid.optimizer",
    "pipeline": _COLLECTIVE,
    "sharding": _COLLECTIVE,
    "heter_ccl_mode": _COLLECTIVE,
}
# What says that nothing of it is asked for: Paddle's own defaults.
_NOTHING: Tuple[Any, ...] = (False, None, 0, "", {}, [])


class DistributedStrategy:
    """a_sync and a_sync_configs. Unknown fields are errors."""

    def __init__(self) -> None:
        self._fields: Dict[str, Any] = {"a_sync": True, "a_sync_configs": MappingProxyType({"k_steps": 0})}
        self._half = False

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(self._unknown(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_fields", "_half"):
            object.__setattr__(self, name, value)
            return
        check = {"a_sync": _switch, "a_sync_configs": _configs}.get(name)
        if check is not None:
            self._fields[name] = check(name, value)
        elif name not in _REFUSED or value not in _NOTHING:
            raise UsageError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        answer = _REFUSED.get(name) or answer_for(["strategy"], name)
        if answer is not None:
            return f"strategy.{name}: {answer}"
        return f"strategy.{name}: there is no such field; there are {', '.join(self._fields)}"

    @property
    def sync(self) -> bool:
        """Whether each batch waits for all workers."""
        return not self._fields["a_sync"]

    @property
    def mode(self) -> str:
        """As `tug train --mode`."""
        steps = self._fields["a_sync_configs"].get("k_steps", 0)
        if self.sync:
            if steps > 0:
                raise UsageError("strategy: a_sync=False and k_steps > 0, GEO, exclude each other")
            return "sync"
        return f"geo:{steps}" if steps > 0 else "half-async" if self._half else "async"

    @staticmethod
    def half_async() -> "DistributedStrategy":
        """The threads of a worker compute a batch together, and workers do not wait for each other."""
        strategy = DistributedStrategy()
        strategy._half = True
        return strategy

    def __repr__(self) -> str:
        return f"DistributedStrategy({ {**self._fields, 'a_sync_configs': dict(self._fields['a_sync_configs'])} })"


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"strategy.{name}: must be True or False, not {type(value).__name__}")
    return value


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(f"strategy.{name}: must be a dict, not {type(value).__name__}")
    return value


def _configs(name: str, value: Any) -> Mapping[str, Any]:
    for field, given in _mapping(name, value).items():
        if field in _REFUSED_CONFIGS:
            if given == _DEFAULTS_OF_CONFIGS.get(field, False):
                continue
            raise UsageError(f"strategy.{name}['{field}']: {_IGNORED_THERE}; here it is refused: "
                             f"{_REFUSED_CONFIGS[field]}")
        if field != "k_steps":
            raise UsageError(f"strategy.{name}: there is no field '{field}'; there is k_steps")
        whole(given, f"strategy.{name}['k_steps']", 0, 2 ** 31)
    return MappingProxyType({"k_steps": value.get("k_steps", 0)})  # setting one of its items would pass by these checks


class DistributeTranspilerConfig:
    """Paddle 1.x: the fields that have a meaning here. sync_mode=True is a_sync=False."""

    _REFUSED: Dict[str, Tuple[List[Any], str]] = {
        "slice_var_up": ([True], "rows are always spread over all servers"),
        "split_method": ([None, "RoundRobin", "HashName"], "keys are placed by hash"),
        "min_block_size": ([8192], "blocks of dense parameters have 256 floats"),
        "runtime_split_send_recv": ([False, True], "a push is always split by server"),
        "enable_dc_asgd": ([False], "there is no delay compensation"),
        "wait_port": ([True], "a run always begins when all processes are there"),
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


class StrategyFactory:
    """Paddle 1.x's names of strategies."""

    @staticmethod
    def create_sync_strategy() -> DistributedStrategy:
        """Each batch waits for all workers."""
        strategy = DistributedStrategy()
        strategy.a_sync = False
        return strategy

    @staticmethod
    def create_async_strategy() -> DistributedStrategy:
        """Nobody waits for anybody."""
        return DistributedStrategy()

    @staticmethod
    def create_half_async_strategy() -> DistributedStrategy:
        """The threads of a worker compute a batch together."""
        return DistributedStrategy.half_async()

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> DistributedStrategy:
        """Workers train copies of the rows for so many batches, and bring together what has changed."""
        strategy = DistributedStrategy()
        strategy.a_sync_configs = {"k_steps": whole(update_frequency, "update_frequency", 1, 2 ** 31)}
        return strategy


def strategy_of(given: Any) -> DistributedStrategy:
    """What fleet takes as a strategy."""
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
