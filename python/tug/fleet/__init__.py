"""tug.fleet: Paddle's fleet over tug's servers and workers.

    from tug.fleet import fleet, PaddleCloudRoleMaker

    fleet.init(PaddleCloudRoleMaker())
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        fleet.init_worker()
        ...
        fleet.stop_worker()

docs/from-paddle.md lists Paddle's names, their counterparts in tug, and the differences.

SPDX-License-Identifier: Apache-2.0
"""

import sys
from typing import Any

from tug.fleet import _classes, data_generator, dataset, io, metrics, optimizer, role_maker
from tug.fleet._fleet import Fleet, Util, fleet
from tug.fleet._names import Named, no_such
from tug.fleet._namespaces import make
from tug.fleet._program import (Program, Variable, auc, data, default_main_program, default_startup_program,
                                global_scope, guard, net, program_guard)
from tug.fleet._trainers import (DeviceWorkerFactory, DistMultiTrainer, DownpourSGD, DownpourWorker, Hogwild,
                                 HogwildWorker, MultiTrainer, TrainerFactory)
from tug.fleet._communicator_settings import DistributedMode
from tug.fleet.communicator import CommContext, Communicator, DistCommunicator
from tug.fleet.data_feeder import DataFeeder
from tug.fleet.data_generator import MultiSlotDataGenerator, MultiSlotStringDataGenerator
from tug.fleet.dataset import DatasetBase, DatasetFactory, InMemoryDataset, QueueDataset
from tug.fleet.executor import CPUPlace, Executor, cpu_places, is_compiled_with_cuda
from tug.fleet.role_maker import PaddleCloudRoleMaker, Role, RoleMaker, UserDefinedRoleMaker
from tug.fleet.server_desc import FleetTable
from tug.fleet.strategy import DistributedStrategy, DistributeTranspilerConfig, StrategyFactory
from tug.fleet.wrapper import FleetWrapper


class _Layers(Named):
    """The object `layers`, with layers.data and layers.auc."""

    holders = ("layers",)
    data, auc = staticmethod(data), staticmethod(auc)


class _UniqueName(Named):
    """The object `unique_name`, with unique_name.guard."""

    holders = ("unique_name",)
    guard = staticmethod(guard)


def enable_static() -> None:
    """Has no effect: here programs are always declared before they run."""


def __getattr__(name: str) -> Any:
    """Returns an attribute of the object `fleet`, so that `import tug.fleet as fleet; fleet.init()` works. The error
    for an unknown name has a replacement."""
    if not name.startswith("_") and hasattr(Fleet, name):
        return getattr(fleet, name)
    if name == "util":
        return fleet.util
    if name.startswith("__"):
        raise AttributeError(name)
    raise no_such(["tug.fleet", "fleet"], name, [*globals(), *dir(Fleet)])


layers, unique_name = _Layers(), _UniqueName()
DistFleetWrapper, UtilBase = FleetWrapper, Util
globals().update({name: getattr(_classes, name) for name in _classes.NAMES})
base = fluid = sys.modules[__name__]  # paddle.base, paddle.fluid
make(fluid)

__all__ = ["CPUPlace", "CommContext", "Communicator", "DataFeeder", "DatasetBase", "DatasetFactory",
           "DistCommunicator", "DistFleetWrapper", "DistMultiTrainer", "DistributeTranspilerConfig",
           "DistributedMode", "DistributedStrategy", "DownpourSGD", "DownpourWorker", "Executor", "Fleet",
           "FleetTable", "FleetWrapper", "Hogwild", "HogwildWorker", "InMemoryDataset", "MultiSlotDataGenerator",
           "MultiSlotStringDataGenerator", "MultiTrainer", "PaddleCloudRoleMaker", "Program", "QueueDataset", "Role",
           "RoleMaker", "StrategyFactory", "TrainerFactory", "UserDefinedRoleMaker", "Util", "UtilBase", "Variable",
           "cpu_places", "data", "data_generator", "dataset", "default_main_program", "default_startup_program",
           "enable_static", "fleet", "fluid", "global_scope", "io", "is_compiled_with_cuda", "layers", "metrics",
           "net", "optimizer", "program_guard", "role_maker", "unique_name"]
