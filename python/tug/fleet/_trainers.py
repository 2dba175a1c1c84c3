"""Names of Paddle's trainers, which a run's strategy chooses. There is one way of training, threads that take
pieces of files and update rows; these say what it is called there.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Callable, Dict, Mapping, Optional, Type

from tug._arrays import whole
from tug.fleet._fleet import fleet
from tug.fleet._names import Named
from tug.fleet._trainer_options import TRAINERS, WORKERS, check_name, check_options

class DeviceWorker(Named):
    """A thread of a pass."""

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
        self.thread_num = 0  # 0: the dataset says it

    def _set_thread(self, thread_num: int) -> None:
        """The threads of the pass, as train_from_dataset(thread=) has them."""
        self.thread_num = whole(thread_num, "thread_num", 0, 256)

    def _set_debug(self, debug: bool) -> None:
        """train_from_dataset(debug=) says it."""

    def _gen_trainer_desc(self) -> None:
        """Nothing: there is no description of a pass."""

    def _desc(self) -> str:
        """The pass as text."""
        return f"class_name: \"{type(self).__name__}\"\ndevice_worker_name: \"{type(self.device_worker).__name__}\"\n"


class MultiTrainer(Trainer):
    """For a program that runs alone."""

    def __init__(self) -> None:
        super().__init__(HogwildWorker())


class DistMultiTrainer(Trainer):
    """Of a worker in a run."""

    def __init__(self) -> None:
        super().__init__(DownpourWorker())


_TRAINERS: Dict[str, Callable[[], Trainer]] = dict(zip(TRAINERS, (MultiTrainer, DistMultiTrainer)))
_WORKERS: Dict[str, Type[DeviceWorker]] = {
    name: HogwildWorker if name.startswith("Hogwild") else DownpourWorker for name in WORKERS}


class TrainerFactory(Named):
    """Says which of them a pass is; exe.train_from_dataset makes it by itself."""

    holders = ("TrainerFactory", "a trainer")

    def create_trainer(self, opt_info: Optional[Mapping[str, Any]] = None) -> Trainer:
        """Returns the trainer that opt_info names, as Program._fleet_opt has it; else
        DistMultiTrainer in a run, MultiTrainer without one."""
        said = {} if opt_info is None else check_options(opt_info, "opt_info")
        name = said.get("trainer") or TRAINERS[fleet.in_run()]
        made = _TRAINERS[name]()
        if said.get("device_worker"):
            made.device_worker = _WORKERS[said["device_worker"]]()
        return made

    _create_trainer = create_trainer


class DeviceWorkerFactory(Named):
    """The same of threads."""

    holders = ("DeviceWorkerFactory", "a trainer")

    def create_device_worker(self, worker_type: str) -> DeviceWorker:
        """By its name."""
        check_name("worker_type", worker_type, WORKERS)
        return _WORKERS[worker_type]()

    _create_device_worker = create_device_worker


Hogwild, DownpourSGD = HogwildWorker, DownpourWorker
