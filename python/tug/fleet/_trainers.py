"""Paddle's classes of trainers and device workers. tug has one way of training: threads that read pieces of files and
update rows. The classes here only have Paddle's names for it.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Callable, Dict, Mapping, Optional, Type

from tug._arrays import whole
from tug.fleet._fleet import fleet
from tug.fleet._names import Named
from tug.fleet._trainer_options import TRAINERS, WORKERS, check_name, check_options

class DeviceWorker(Named):
    """The base of Paddle's classes for a thread of a pass."""

    holders = ("a device worker", "a trainer")


class HogwildWorker(DeviceWorker):
    """Paddle's name for a thread that updates rows of this process without locks."""


class DownpourWorker(DeviceWorker):
    """Paddle's name for a thread that pulls rows from servers and pushes gradients."""


class Trainer(Named):
    """The base of Paddle's classes for a pass of train_from_dataset."""

    holders = ("a trainer",)

    def __init__(self, device_worker: DeviceWorker) -> None:
        self.device_worker = device_worker
        self.thread_num = 0  # the number of threads; 0: that of the dataset

    def _set_thread(self, thread_num: int) -> None:
        """Stores the number of threads. It has no effect; use train_from_dataset(thread=N)."""
        self.thread_num = whole(thread_num, "thread_num", 0, 256)

    def _set_debug(self, debug: bool) -> None:
        """Has no effect; use train_from_dataset(debug=True)."""

    def _gen_trainer_desc(self) -> None:
        """Has no effect: tug needs no description of a pass."""

    def _desc(self) -> str:
        """Returns the names of the trainer and its device worker as text."""
        return f"class_name: \"{type(self).__name__}\"\ndevice_worker_name: \"{type(self.device_worker).__name__}\"\n"


class MultiTrainer(Trainer):
    """The trainer of a program that runs without a fleet."""

    def __init__(self) -> None:
        super().__init__(HogwildWorker())


class DistMultiTrainer(Trainer):
    """The trainer of a worker in a run."""

    def __init__(self) -> None:
        super().__init__(DownpourWorker())


_TRAINERS: Dict[str, Callable[[], Trainer]] = dict(zip(TRAINERS, (MultiTrainer, DistMultiTrainer)))
_WORKERS: Dict[str, Type[DeviceWorker]] = {
    name: HogwildWorker if name.startswith("Hogwild") else DownpourWorker for name in WORKERS}


class TrainerFactory(Named):
    """Makes the trainer of a pass. A script does not need it: exe.train_from_dataset uses none."""

    holders = ("TrainerFactory", "a trainer")

    def create_trainer(self, opt_info: Optional[Mapping[str, Any]] = None) -> Trainer:
        """Returns the trainer that opt_info names (a dictionary like Program._fleet_opt); without a name,
        DistMultiTrainer in a run and MultiTrainer otherwise."""
        said = {} if opt_info is None else check_options(opt_info, "opt_info")
        name = said.get("trainer") or TRAINERS[fleet.in_run()]
        made = _TRAINERS[name]()
        if said.get("device_worker"):
            made.device_worker = _WORKERS[said["device_worker"]]()
        return made

    _create_trainer = create_trainer


class DeviceWorkerFactory(Named):
    """Makes device workers."""

    holders = ("DeviceWorkerFactory", "a trainer")

    def create_device_worker(self, worker_type: str) -> DeviceWorker:
        """Returns the device worker of this name."""
        check_name("worker_type", worker_type, WORKERS)
        return _WORKERS[worker_type]()

    _create_device_worker = create_device_worker


Hogwild, DownpourSGD = HogwildWorker, DownpourWorker
