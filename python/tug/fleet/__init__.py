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

docs/from-paddle.md has Paddle's names beside tug's, and what differs.

SPDX-License-Identifier: Apache-2.0
"""

from types import SimpleNamespace
from typing import NoReturn

from tug.fleet import dataset, io, metrics, optimizer, role_maker
from tug.fleet._fleet import Fleet, Util, fleet
from tug.fleet._program import (Program, Variable, auc, data, default_main_program, default_startup_program,
                                global_scope, guard, net, program_guard)
from tug.fleet.data_feeder import DataFeeder
from tug.fleet.data_generator import MultiSlotDataGenerator, MultiSlotStringDataGenerator
from tug.fleet.dataset import DatasetFactory, InMemoryDataset, QueueDataset
from tug.fleet.executor import CPUPlace, Executor
from tug.fleet.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from tug.fleet.strategy import DistributedStrategy, DistributeTranspilerConfig, StrategyFactory
from tug.fleet.wrapper import Communicator, FleetTable, FleetWrapper

_OTHERS = "docs/from-paddle.md lists the replacements"
_LAYERS = ("a net is one of tug's own, net(inputs, params), whose layers params names (docs/from-paddle.md); "
           "another is a loop of one's own over tables (docs/python.md)")
_NETS = ("embedding", "nets", "ParamAttr", "initializer", "regularizer", "clip")


class _Layers:
    """layers.data and layers.auc."""

    data, auc = staticmethod(data), staticmethod(auc)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"layers has no '{name}': {_LAYERS}")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"tug.fleet has no '{name}'; {_LAYERS if name in _NETS else _OTHERS}")


layers = _Layers()
unique_name = SimpleNamespace(guard=guard)

__all__ = ["CPUPlace", "Communicator", "DataFeeder", "DatasetFactory", "DistributeTranspilerConfig",
           "DistributedStrategy", "Executor", "Fleet", "FleetTable", "FleetWrapper", "InMemoryDataset",
           "MultiSlotDataGenerator", "MultiSlotStringDataGenerator", "PaddleCloudRoleMaker", "Program", "QueueDataset",
           "Role", "StrategyFactory", "UserDefinedRoleMaker", "Util", "Variable", "data", "dataset",
           "default_main_program", "default_startup_program", "fleet", "global_scope", "io", "layers", "metrics", "net",
           "optimizer", "program_guard", "role_maker", "unique_name"]
