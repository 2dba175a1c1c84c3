"""Provides Paddle's import paths below tug.fleet. In an import line of a script, only paddle, paddle.fluid or
paddle.distributed.fleet has to be replaced by tug.fleet.

    import tug.fleet as fluid                       # paddle.fluid
    import tug.fleet as paddle                      # paddle.static.Executor, paddle.distributed.InMemoryDataset
    from tug.fleet.incubate.fleet.parameter_server.distribute_transpiler import fleet
    from tug.fleet.transpiler.distribute_transpiler import DistributeTranspilerConfig

Each path is a module with some of the names of tug.fleet.

SPDX-License-Identifier: Apache-2.0
"""

import sys
from types import ModuleType
from typing import Dict

from tug.fleet._names import no_such, of_module

_PROGRAMS = ("Program Variable program_guard default_main_program default_startup_program")
_MAKERS = "PaddleCloudRoleMaker UserDefinedRoleMaker Role RoleMaker"
_DATASETS = "DatasetFactory InMemoryDataset QueueDataset DatasetBase"
_STRATEGIES = "DistributeTranspilerConfig StrategyFactory DistributedStrategy"

MODULES = ("communicator", "data_feeder", "data_generator", "dataset", "executor", "io", "metrics", "optimizer",
           "role_maker", "server_desc", "strategy", "wrapper")
PATHS: Dict[str, str] = {
    "framework": _PROGRAMS,
    "static": f"{_PROGRAMS} Executor CPUPlace cpu_places data global_scope auc net io",
    "distributed": f"{_DATASETS} {_STRATEGIES} {_MAKERS}",
    "core": "DistFleetWrapper DistCommunicator CommContext PSHost CPUPlace",
    "transpiler": _STRATEGIES,
    "transpiler.distribute_transpiler": _STRATEGIES,
    "incubate": "data_generator",
    "incubate.fleet": "base parameter_server",
    "incubate.fleet.base": "role_maker",
    "incubate.fleet.parameter_server": "distribute_transpiler pslib",
    "incubate.fleet.parameter_server.distribute_transpiler": f"fleet {_STRATEGIES}",
    "incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy": _STRATEGIES,
    "incubate.fleet.parameter_server.pslib": "fleet",
    "incubate.fleet.utils": "Util",
    "trainer_factory": "TrainerFactory",
    "trainer_desc": "MultiTrainer DistMultiTrainer",
    "device_worker": "Hogwild DownpourSGD DeviceWorkerFactory",
    "distributed.ps": "utils the_one_ps",
    "distributed.ps.utils": "public ps_factory",
    "distributed.ps.utils.public": "DistributedMode",
    "distributed.ps.the_one_ps": "Accessor Service Table",
}


class _Path(ModuleType):
    """The module of one import path."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise no_such([self.__name__, "tug.fleet"], name, dir(self))


# Other paths that Paddle has for the modules of tug.fleet ("" is tug.fleet itself).
_SAME = {"distributed.fleet": "", "distributed.fleet.base": "", "distributed.fleet.base.role_maker": "role_maker",
         "distributed.fleet.dataset": "dataset", "distributed.fleet.metrics": "metrics",
         "distributed.fleet.data_generator": "data_generator", "incubate.data_generator": "data_generator",
         "incubate.fleet.base.role_maker": "role_maker", "distributed.communicator": "communicator"}


def make(root: ModuleType) -> None:
    """Creates the modules of all paths below `root` (tug.fleet), and gives each existing module the errors of
    _names.py."""
    for name in MODULES:
        module = sys.modules[f"{root.__name__}.{name}"]
        setattr(module, "__getattr__", of_module(module.__name__, name))  # noqa: B010  mypy: a module's
    for path, name in _SAME.items():
        sys.modules[f"{root.__name__}.{path}"] = vars(root)[name] if name else root
    for path, names in PATHS.items():
        full = f"{root.__name__}.{path}"
        module = sys.modules.setdefault(full, _Path(full, __doc__))
        parent, _, last = full.rpartition(".")
        holder = sys.modules[parent]
        if last not in vars(holder):
            setattr(holder, last, module)
        for name in names.split():
            if name in vars(root) and name not in vars(module):
                setattr(module, name, vars(root)[name])
    for path in _SAME:
        parent, _, last = f"{root.__name__}.{path}".rpartition(".")
        vars(sys.modules[parent])[last] = sys.modules[f"{root.__name__}.{path}"]
