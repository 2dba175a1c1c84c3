"""Executors: passes of a program's net over a dataset.

Threads share the rows through the servers: each pulls a batch's rows, computes, and pushes its gradients. With
a_sync=False a batch is a round of all workers: nobody pushes before all have pulled, nobody pulls before all have
pushed, and gradients are averaged over the workers that have a batch.

SPDX-License-Identifier: Apache-2.0
"""

import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from tug._client import local
from tug._errors import ArgumentTypeError, DataError, UsageError
from tug.fleet import _program
from tug.fleet._fleet import fleet
from tug.fleet._lines import Lines
from tug.fleet._net import Batch, Net
from tug.fleet._program import DeclaredNet, Program, Variable
from tug.fleet.dataset import DatasetBase


class CPUPlace:
    """Where programs run."""


def _mix(x: Any) -> Any:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class _Feed:
    """From lines of a dataset's slots to batches of a net's."""

    def __init__(self, net: DeclaredNet, slots: Sequence[Variable]) -> None:
        missing = [one.name for one in [*net.slots, net.label] if one not in slots]
        if missing:
            raise UsageError(f"dataset: the net needs slots that set_use_var does not name: {', '.join(missing)}")
        self.label = list(slots).index(net.label)
        self.label_is_id = net.label.dtype == "int64"
        self.place = np.full(len(slots), 65535, np.uint16)
        for i, one in enumerate(net.slots):
            self.place[list(slots).index(one)] = i
        self.seed = np.array([one.seed for one in slots], np.uint64)

    def batch(self, lines: Lines) -> Batch:
        """A batch; slots that the net does not have are left out."""
        is_label = lines.slot == self.label
        label = lines.raw[is_label].astype(np.float32) if self.label_is_id else lines.value[is_label]
        keep = self.place[lines.slot] != 65535
        ends = np.concatenate([[0], np.cumsum(keep)])[lines.start]
        slot = lines.slot[keep]
        return Batch(ends.astype(np.uint32), _mix(lines.raw[keep] ^ self.seed[slot]), self.place[slot],
                     np.ascontiguousarray(lines.value[keep]), np.ascontiguousarray(label))


class _Pass:
    """One pass, by some threads."""

    def __init__(self, program: Program, dataset: DatasetBase, train: bool, say: "_Say") -> None:
        if program.net is None:
            raise UsageError("the program has no net: net(inputs, params) makes one")
        if train and program.net.rule is None:
            raise UsageError("the program has no optimizer: optimizer.minimize(loss) comes first")
        self.program, self.net, self.train, self.say = program, program.net, train, say
        self.rows = program.net.rows
        self.feed = _Feed(program.net, dataset.slots)
        self.iterator: Iterator[Lines] = dataset.batches()
        self.lock = threading.Lock()
        self.failed: List[BaseException] = []
        self.seconds: Dict[str, float] = {"read": 0.0, "pull": 0.0, "compute": 0.0, "push": 0.0}
        self.examples = self.batches = 0
        self.loss_sum = 0.0

    def next(self) -> Optional[Batch]:
        """The next batch, for whoever asks first."""
        with self.lock:
            lines = None if self.failed else next(self.iterator, None)
        return None if lines is None else self.feed.batch(lines)

    def add(self, batch: Batch, p: Any, loss: float, spent: Sequence[float]) -> None:
        """What a batch has said."""
        for metric in self.program.metrics.values():
            metric.add(p, batch.label)
        with self.lock:
            self.examples += len(batch.label)
            self.batches += 1
            self.loss_sum += loss * len(batch.label)
            self.program.values["loss"] = self.loss_sum / self.examples
            for name, seconds in zip(self.seconds, spent):
                self.seconds[name] += seconds

    def compute(self, net: Net, batch: Batch, spent: List[float]) -> Tuple[Any, Any, Any, Any, float]:
        """Keys, gradients of rows and layers, probabilities, loss."""
        begin = time.monotonic()
        keys, place, rows, dense = self.rows.pull(batch)
        spent.append(time.monotonic() - begin)
        if self.train:
            of_rows, of_dense, p, loss = net.gradients(batch, place, rows, dense)
        else:
            p, of_rows, of_dense = net.predict(batch, place, rows, dense), None, None
            loss = float(-np.mean(np.log(np.maximum(np.where(batch.label > 0, p, 1 - p), 1e-7))))
        spent.append(time.monotonic() - begin - spent[-1])
        return keys, of_rows, of_dense, p, loss

    def run_one(self, net: Net, batch: Batch, read: float) -> None:
        """A batch, without waiting for anybody."""
        spent = [read]
        keys, of_rows, of_dense, p, loss = self.compute(net, batch, spent)
        begin = time.monotonic()
        if self.train:
            self.rows.push(keys, of_rows, of_dense)
        self.add(batch, p, loss, [*spent, time.monotonic() - begin])

    def thread(self, number: int) -> None:
        """Batches until there are none."""
        try:
            net, done = Net(self.net.shape), 0
            while True:
                begin = time.monotonic()
                batch = self.next()
                if batch is None:
                    return
                self.run_one(net, batch, time.monotonic() - begin)
                done += 1
                if number == 0:
                    self.say.after(done)
        except BaseException as error:
            self.failed.append(error)

    def rounds(self) -> None:
        """a_sync=False: batches of all workers together. Who has none left takes part with nothing."""
        net, done = Net(self.net.shape), 0
        while True:
            begin = time.monotonic()
            batch = self.next()
            spent = [time.monotonic() - begin]
            said = None if batch is None else self.compute(net, batch, spent)
            training = fleet.util.all_reduce(0 if batch is None else 1)
            if training == 0:
                return
            if batch is not None and said is not None:
                keys, of_rows, of_dense, p, loss = said
                pushed = time.monotonic()
                of_rows[:, :-2] /= training  # behind the gradients it has counts
                self.rows.push(keys, of_rows, of_dense / np.float32(training))
                self.add(batch, p, loss, [*spent, time.monotonic() - pushed])
                done += 1
                self.say.after(done)
            fleet.barrier_worker()

    def run(self, threads: int) -> None:
        """By so many threads."""
        if self.train and fleet.in_run() and fleet.strategy.sync:
            if threads > 1:
                raise UsageError(f"a_sync=False: a worker has one thread, not {threads}; start more workers")
            self.rounds()
            return
        others = [threading.Thread(target=self.thread, args=(i,), daemon=True) for i in range(1, threads)]
        for one in others:
            one.start()
        self.thread(0)
        for one in others:
            one.join()
        if self.failed:
            raise self.failed[0]


class _Say:
    """fetch_list every print_period batches of the first thread, and at the end."""

    def __init__(self, program: Program, fetch_list: Optional[Sequence[Any]], fetch_info: Optional[Sequence[str]],
                 period: int) -> None:
        names = [one.name if isinstance(one, Variable) else str(one) for one in fetch_list or ()]
        infos = list(fetch_info or names)
        if len(infos) != len(names):
            raise UsageError(f"fetch_info: has {len(infos)} texts for {len(names)} values of fetch_list")
        if isinstance(period, bool) or not isinstance(period, int) or period < 1:
            raise UsageError(f"print_period: {period} is not a number of batches")
        for name in names:
            _program.value_of(program, name)
        self.program, self.names, self.infos, self.period = program, names, infos, period

    def after(self, batches: int) -> None:
        """A batch is done."""
        if self.names and batches % self.period == 0:
            said = "  ".join(f"{info}: {_program.value_of(self.program, name):.6f}"
                             for info, name in zip(self.infos, self.names))
            print(f"batch {batches}  {said}", flush=True)


class Executor:
    """What runs programs."""

    def __init__(self, place: Any = None) -> None:
        if place is not None and not isinstance(place, CPUPlace):
            raise ArgumentTypeError(f"place: programs run on CPUPlace(), not {type(place).__name__}")

    def run(self, program: Optional[Program] = None, feed: Any = None, fetch_list: Any = None) -> List[Any]:
        """The startup program. In a fleet init_worker sets first values, before or after it; alone, this does."""
        if program is not None and program is not _program.default_startup_program():
            raise UsageError("exe.run: runs the startup program; a net is run by train_from_dataset and "
                             "infer_from_dataset")
        if feed or fetch_list:
            raise UsageError("exe.run: a startup program has nothing to feed or to fetch")
        net = _program.default_main_program().net
        if net is not None and net.tables is None and not fleet.is_begun():
            net.open(local()).begin()
        return []

    def close(self) -> None:
        """Closes the tables of a program that runs alone."""
        net = _program.default_main_program().net
        if net is not None and net.tables is not None and not fleet.is_begun():
            net.tables.features.client.close()
            net.tables = None

    def train_from_dataset(self, program: Optional[Program] = None, dataset: Optional[DatasetBase] = None,
                           scope: Any = None, thread: int = 0, debug: bool = False,
                           fetch_list: Optional[Sequence[Any]] = None, fetch_info: Optional[Sequence[str]] = None,
                           print_period: int = 100) -> None:
        """One pass over this worker's part of the data."""
        del scope
        self._pass(program, dataset, thread, debug, fetch_list, fetch_info, print_period, True)

    def infer_from_dataset(self, program: Optional[Program] = None, dataset: Optional[DatasetBase] = None,
                           scope: Any = None, thread: int = 0, debug: bool = False,
                           fetch_list: Optional[Sequence[Any]] = None, fetch_info: Optional[Sequence[str]] = None,
                           print_period: int = 100) -> None:
        """The same without learning: loss and metrics of the data."""
        del scope
        self._pass(program, dataset, thread, debug, fetch_list, fetch_info, print_period, False)

    @staticmethod
    def _pass(program: Optional[Program], dataset: Optional[DatasetBase], thread: int, debug: bool,
              fetch_list: Optional[Sequence[Any]], fetch_info: Optional[Sequence[str]], period: int,
              train: bool) -> None:
        if not isinstance(dataset, DatasetBase):
            raise ArgumentTypeError("dataset: must be a QueueDataset or an InMemoryDataset")
        program = program or _program.default_main_program()
        one = _Pass(program, dataset, train, _Say(program, fetch_list, fetch_info, period))
        begin = time.monotonic()
        one.run(thread if thread > 0 else dataset.thread_num)
        if one.examples == 0 and not fleet.in_run():
            raise DataError("the dataset is empty: set_filelist names no examples")
        if debug:
            seconds = time.monotonic() - begin
            spent = ", ".join(f"{name} {value:.2f} s" for name, value in one.seconds.items())
            print(f"{one.examples} examples in {one.batches} batches, {seconds:.2f} s; of all threads: {spent}",
                  flush=True)
