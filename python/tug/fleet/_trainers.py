"""Names of Paddle's trainers: what a run's strategy makes of them. There is one way of training, threads that take
pieces of files and update rows; these say what it is called there.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any

from tug.fleet._fleet import fleet
from tug.fleet._names import Named


class DeviceWorker(Named):
    """What a thread of a pass is."""

    holders = ("a device worker", "a trainer")


class HogwildWorker(DeviceWorker):
    """A thread that updates rows of this process, without locks."""


class DownpourWorker(DeviceWorker):
    """A thread that pulls rows from servers and pushes gradients."""


class Trainer(Named):
    """A pass of train_from_dataset."""

    holders = ("a trainer",)

    def __init__(self, device_worker: DeviceWorker) -> None:
        self.device_worker = device_worker


class MultiTrainer(Trainer):
    """Of a program that runs alone."""

    def __init__(self) -> None:
        super().__init__(HogwildWorker())


class DistMultiTrainer(Trainer):
    """Of a worker in a run."""

    def __init__(self) -> None:
        super().__init__(DownpourWorker())


class TrainerFactory(Named):
    """Says which of them a pass is now; exe.train_from_dataset makes it by itself."""

    holders = ("TrainerFactory", "a trainer")

    def create_trainer(self, opt_info: Any = None) -> Trainer:
        """DistMultiTrainer in a run, MultiTrainer without one."""
        del opt_info
        return DistMultiTrainer() if fleet.in_run() else MultiTrainer()

    _create_trainer = create_trainer


Hogwild, DownpourSGD = HogwildWorker, DownpourWorker
