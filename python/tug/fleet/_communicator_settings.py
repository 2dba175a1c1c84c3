"""Modes and settings of a Communicator. Each setting of Paddle's is accepted, or refused with the reason.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from tug._arrays import kind_of, whole
from tug._errors import ArgumentTypeError, UsageError


class DistributedMode:
    """The modes of a communicator, with Paddle's numbers."""

    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3


MODES = ("SYNC", "ASYNC", "HALF_ASYNC", "GEO")  # the names of the modes, indexed by their numbers
K_STEPS = 100  # the default of Paddle's geo_sgd_need_push_nums
_PREFIX = "communicator_"
# Settings that accept only Paddle's default. Each has the default and the reason why tug has no other value.
_FIXED: Dict[str, Tuple[str, str]] = {
    "communicator_thread_pool_size": ("5", "requests need no threads: one thread sends to all servers at once"),
    "communicator_send_wait_times": ("5", "queued pushes are sent immediately; pushes that come meanwhile are merged"),
    "communicator_fake_rpc": ("0", "a worker always sends its requests"),
}
_TAKEN = ("communicator_send_queue_size", "communicator_max_merge_var_num", "communicator_is_sgd_optimizer",
          "communicator_independent_recv_thread", "communicator_min_send_grad_num_before_recv")
_FACTS = ("trainers", "trainer_id", "pserver_endpoints", "need_global_step", "barrier_table_id")


class Settings(NamedTuple):
    """The settings of a communicator. 0 (queue, merge) and -1 (trainers, trainer_id, servers) mean that none was
    given."""

    queue: int = 0
    merge: int = 0
    threads: int = 1
    k_steps: int = K_STEPS
    mean: bool = False
    receives: bool = False
    recv_after: int = 1
    trainers: int = -1
    trainer_id: int = -1
    servers: int = -1

    def check(self, index: int, workers: int, servers: int) -> None:
        """Raises UsageError if the given numbers of workers or servers, or the worker's index, are not those of the
        run."""
        for name, said, true in (("trainer_id", self.trainer_id, index), ("trainers", self.trainers, workers),
                                 ("pserver_endpoints", self.servers, servers)):
            if said not in (-1, true):
                raise UsageError(f"{name}: {'has ' if name == 'pserver_endpoints' else 'is '}{said}, but in this run "
                                 f"the right number is {true}")


def mode_of(given: Any) -> str:
    """Returns the name of a mode, which is given by name or by number."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(MODES):
        return MODES[given]
    if not isinstance(given, (str, int)) or isinstance(given, bool):
        raise ArgumentTypeError(f"mode: must be one of {', '.join(MODES)}, not {kind_of(given)}")
    if given in ("WITH_COORDINATOR", "FL", 4):
        raise UsageError(f"mode: '{given}': tug has no federated learning")
    if given not in MODES:
        raise UsageError(f"mode: '{given}' is not one of {', '.join(MODES)}")
    return str(given)


def _whole(name: str, given: Any, low: int, high: int = 2 ** 31) -> int:
    text = str(int(given)) if isinstance(given, bool) else str(given).strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise UsageError(f"envs: {name} is '{text[:60]}', which is not a whole number")
    return whole(int(text), name, low, high)


def _said(kwargs: Optional[Mapping[str, Any]], envs: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """Returns all given settings by name. `envs` takes precedence over kwargs, and kwargs over FLAGS_ variables of the
    environment."""
    for what, given in (("kwargs", kwargs), ("envs", envs)):
        if given is not None and not isinstance(given, Mapping):
            raise ArgumentTypeError(f"{what}: must be a dict, not {kind_of(given)}")
    unknown = sorted(str(name) for name in set(kwargs or ()) - set(_FACTS))
    if unknown:
        raise UsageError(f"kwargs: {', '.join(unknown)}: a communicator does not have these settings; it has "
                         f"{', '.join(_FACTS)}")
    known = (*_TAKEN, *_FIXED, *_FACTS)
    unknown = sorted(str(name) for name in set(envs or ()) - set(known))
    if unknown:
        raise UsageError(f"envs: there is no {', '.join(unknown)}; there are {', '.join((*_TAKEN, *_FACTS))}")
    flags = {name: os.environ[f"FLAGS_{name}"] for name in (*_TAKEN, *_FIXED) if os.environ.get(f"FLAGS_{name}")}
    return {**flags, **(kwargs or {}), **(envs or {})}


def _facts(said: Mapping[str, Any]) -> Dict[str, int]:
    facts = {name: _whole(name, said[name], 0, 65535) for name in ("trainers", "trainer_id") if name in said}
    if "pserver_endpoints" in said:
        given = said["pserver_endpoints"]
        facts["servers"] = len(given.split(",") if isinstance(given, str) else list(given))
    if str(said.get("need_global_step", "0")) not in ("0", "False", ""):
        raise UsageError("need_global_step: a communicator counts no steps; FleetWrapper.push_global_step() does")
    return facts


def settings_of(mode: str, kwargs: Optional[Mapping[str, Any]], envs: Optional[Mapping[str, Any]]) -> Settings:
    """Returns the settings that kwargs, envs and FLAGS_ variables give for a mode."""
    said = _said(kwargs, envs)
    for name, (default, why) in _FIXED.items():
        if name in said and str(said[name]) != default:
            raise UsageError(f"{name}: must be {default} or left out: {why}")
    found: Dict[str, Any] = dict(_facts(said))
    queue, merge = f"{_PREFIX}send_queue_size", f"{_PREFIX}max_merge_var_num"
    if queue in said:
        found["queue"] = _whole(queue, said[queue], 1)
    if merge in said:
        found[{"ASYNC": "merge", "GEO": "k_steps"}.get(mode, "threads")] = _whole(merge, said[merge], 1)
    elif mode in ("SYNC", "HALF_ASYNC") and os.environ.get("CPU_NUM"):
        found["threads"] = _whole("CPU_NUM", os.environ["CPU_NUM"], 1, 65535)
    if _whole("communicator_is_sgd_optimizer", said.get(f"{_PREFIX}is_sgd_optimizer", 1), 0, 1) == 0:
        if mode != "ASYNC":
            raise UsageError("communicator_is_sgd_optimizer: must be 1 or left out in this mode: pushes of a batch are "
                             "added up; tables of mode sync average over the workers with 'reduce = mean'")
        found["mean"] = True
    receives = _whole(f"{_PREFIX}independent_recv_thread", said.get(f"{_PREFIX}independent_recv_thread", 0), 0, 1)
    if receives == 1 and mode == "GEO":
        raise UsageError("communicator_independent_recv_thread: must be 0 or left out in mode GEO, where each exchange "
                         "pulls the variables")
    after = f"{_PREFIX}min_send_grad_num_before_recv"
    if after in said:
        found["recv_after"] = _whole(after, said[after], 1)
    return Settings(receives=receives == 1, **found)
