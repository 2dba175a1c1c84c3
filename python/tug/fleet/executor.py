"""Executors run passes of a program's net over a dataset. Each pass is a call of Model.train() or Model.evaluate().

In a fleet all workers make the same calls. Each worker trains on its own files, and worker 0 keeps the model
(docs/design/0017). If a_sync is False, all workers read all files, and a batch has the examples of all workers' batches
together.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import re
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy as np

from tug import _disk
from tug._arrays import kind_of
from tug._errors import ArgumentTypeError, DataError, Error, UsageError
from tug._model import Model, load
from tug._passes import Progress
from tug.fleet import _program
from tug.fleet._exchange import paths_of
from tug.fleet._fleet import fleet
from tug.fleet._names import Named
from tug.fleet._program import DeclaredNet, Program, Variable
from tug.fleet.data_feeder import text_of_feed
from tug.fleet.dataset import DatasetBase, QueueDataset


class CPUPlace(Named):
    """The place where programs run: the CPU."""

    holders = ("CPUPlace",)


def cpu_places(device_count: Optional[int] = None) -> List[CPUPlace]:
    """Returns [CPUPlace()]: train_from_dataset sets the number of threads."""
    del device_count
    return [CPUPlace()]


def is_compiled_with_cuda() -> bool:
    """Returns False."""
    return False


def _names_of(fetch_list: Optional[Sequence[Any]]) -> List[str]:
    if not isinstance(fetch_list, (list, tuple, type(None))):
        raise ArgumentTypeError(f"fetch_list: must be a list of variables or names, not {kind_of(fetch_list)}")
    return [one.name if isinstance(one, Variable) else str(one) for one in fetch_list or ()]


class _Say:
    """Prints fetch_list every print_period batches or a little later, and at the end."""

    def __init__(self, program: Program, fetch_list: Optional[Sequence[Any]], fetch_info: Optional[Sequence[str]],
                 period: int, batch: int) -> None:
        names = _names_of(fetch_list)
        infos = list(fetch_info or names)
        if len(infos) != len(names):
            raise UsageError(f"fetch_info: has {len(infos)} texts for {len(names)} values of fetch_list")
        if isinstance(period, bool) or not isinstance(period, int) or period < 1:
            raise UsageError(f"print_period: {period} is not a number of batches")
        for name in names:
            _program.value_of(program, name)
        self.names, self.infos, self.period, self.batch = names, infos, period, batch
        self.next = period

    def __call__(self, progress: Progress) -> None:
        batches = -(-progress.examples // self.batch)
        if not self.names or batches < self.next:
            return
        self.next = (batches // self.period + 1) * self.period
        said = "  ".join(f"{info}: {progress.loss if name == 'loss' else progress.auc:.6f}"
                         for info, name in zip(self.infos, self.names))
        print(f"batch {batches}  {said}", flush=True)


# The options of models, and the functions of a dataset or executor that set them.
_SET_BY = {"slots": "set_use_var", "batch": "set_batch_size", "pipe_command": "set_pipe_command",
           "threads": "set_thread", "data": "set_filelist"}


@contextlib.contextmanager
def _in_words_of_fleet() -> Iterator[None]:
    """A context in which the library's errors name fleet's functions instead of tug's options."""
    try:
        yield
    except Error as error:
        text = re.sub(r"(?<![\w-])--(" + "|".join(_SET_BY).replace("_", "[_-]") + r")(?![\w-])",
                      lambda m: _SET_BY[m.group(1).replace("-", "_")], str(error))
        text = re.sub(r"(?<![\w/'.])(slots|pipe_command) (?=is|are|has|names|'|=)", lambda m: _SET_BY[m.group(1)] + " ",
                      text)
        error.args = (text,)
        raise


class _Pass:
    """One pass of a program's net over a dataset."""

    def __init__(self, program: Program, dataset: DatasetBase, threads: int, say: _Say) -> None:
        if program.net is None:
            raise UsageError("the program has no net: net(inputs, params) makes one")
        self.program, self.net, self.dataset, self.say = program, program.net, dataset, say
        self.threads = threads if threads > 0 else dataset.thread_num

    def _ready(self) -> DeclaredNet:
        net = self.net
        if fleet.is_begun():
            fleet.client  # noqa: B018 raises before init_worker
        elif not net.begun and net.left:
            raise UsageError("stop_worker() has left the run, whose servers had the net's rows: train, evaluate and "
                             "save before it, or load a save with fluid.io.load_persistables()")
        elif not net.begun:
            raise UsageError("the net has no rows yet: run the startup program, or in a fleet init_worker()")
        return net

    def _options(self) -> Dict[str, Any]:
        net = self.net
        of_fleet = fleet.options(net.generation)
        batches = fleet.worker_num() if of_fleet.get("mode") == "sync" else 1
        options = {"format": "multislot", "slots": self.dataset.text(net), "batch": self.dataset.batch_size * batches,
                   "threads": self.threads, "epochs": 1, **net.options, **(net.rule or {}), **of_fleet}
        if self.dataset.pipes:
            options["pipe_command"] = self.dataset.pipe_command
        return options

    def _begin_anew(self) -> None:
        """Replaces the net's model by a new one with the same state, which reads its data with other options."""
        if fleet.in_run():  # from the save of the previous pass; all workers do the same
            self.net.begin_anew(fleet.own_save(self.net.generation))
        else:
            self.net.begin_anew(self.net.save_start())

    def _made(self) -> Model:
        """Returns the model, or creates it. Passes may differ in batch size and pipe command, but not in slots."""
        net, options = self.net, self._options()
        asked = {name: options.get(name) for name in ("slots", "batch", "pipe_command")}
        if net.model is not None:
            if asked["slots"] != net.made_for["slots"]:
                raise UsageError("dataset: the passes of a net need the same slots as the first one; they were "
                                 f"{net.made_for['slots']}")
            changed = [asked != net.made_for]
            if any(fleet.exchange.gather(changed[0]) if fleet.in_run() else changed):
                self._begin_anew()
                options = self._options()
        net.made_for = asked
        if net.model is not None:
            return net.model
        where: Dict[str, Any] = {"alone": True} if not fleet.in_run() else {
            "client": fleet.client, "own_files": options["mode"] != "sync"}
        begins = net.begins_with if not fleet.in_run() or fleet.is_first_worker() else None
        if begins is None:
            net.model = Model(progress=self._hear, **where, **options)
        elif net.tables is None and not net.anew:
            net.model = load(begins, progress=self._hear, **where, **options)
        else:
            tables: Dict[str, Any] = {} if net.tables is None else {"init_tables": net.tables}
            net.model = Model(progress=self._hear, init_from=begins, **tables, **where, **options)
        net.hears = self.say
        return net.model

    def _hear(self, progress: Progress) -> None:
        if self.net.hears is not None:
            self.net.hears(progress)

    def _count(self, model: Model, loss: float) -> None:
        positive, negative = model.spread()
        for metric in self.program.metrics.values():
            metric.add(positive, negative)
        self.program.values["loss"] = loss

    def train(self) -> Dict[str, float]:
        """Trains, and returns the results."""
        with _in_words_of_fleet():
            return self._train()

    def _train(self) -> Dict[str, float]:
        if self.net.rule is None:
            raise UsageError("the program has no optimizer: call optimizer.minimize(loss) first")
        self._ready()
        if fleet.in_run() and self.net.model is None:  # the order of a line's slots is that of the layers' inputs
            fleet.agree("datasets", self.dataset.text(self.net))
        model, paths = self._made(), self.dataset.paths()
        if fleet.in_run() and fleet.strategy.mode == "sync":
            paths = sorted({one for i, said in enumerate(fleet.util.all_gather(paths))
                            for one in paths_of(said, f"worker {i}")})
        elif not paths and (not fleet.in_run() or fleet.worker_num() == 1):
            raise DataError("the dataset is empty: give set_filelist files with examples")
        self.net.hears = self.say
        model.train(paths)
        self._count(model, model.results.get("train.logloss", float("nan")))
        self.net.trained = True
        self.net.drop_start()
        return model.results

    def _scorer(self) -> Model:
        net = self._ready()
        if net.trained and (not fleet.in_run() or fleet.is_first_worker()):
            assert net.model is not None
            return net.model
        if not net.trained and net.begins_with is None:
            raise UsageError("the net is not trained yet: train it, or load a save")
        if not net.trained and net.tables is not None:
            raise UsageError(f"the net has only the tables {net.tables} of {net.begins_with}, and cannot be used "
                             "before training: train it first")
        return net.open_save(fleet.saves(net.generation)) if net.trained else net.beginning()

    def infer(self) -> Dict[str, float]:
        """Evaluates, and returns the results."""
        with _in_words_of_fleet():
            return self._infer()

    def predict(self, path: str) -> Any:
        """Returns a probability for each example of a file with the net's slots."""
        with _in_words_of_fleet():
            model = self._scorer()
            try:
                return model.predict(path, **self._read_options())
            finally:
                self.net.close_unless_own(model)

    def _read_options(self) -> Dict[str, Any]:
        options: Dict[str, Any] = {"slots": self.dataset.text(self.net), "threads": self.threads}
        if self.dataset.pipes:
            options["pipe_command"] = self.dataset.pipe_command
        return options

    def _nothing(self) -> Dict[str, float]:
        """Returns the results of a fleet's worker that has no files."""
        for metric in self.program.metrics.values():
            metric.add(np.zeros(0), np.zeros(0))
        self.program.values["loss"] = float("nan")
        return {"examples": 0.0}

    def _infer(self) -> Dict[str, float]:
        paths = self.dataset.paths()
        if not paths and fleet.in_run() and fleet.worker_num() > 1:
            self.dataset.text(self._ready())
            return self._nothing()
        model = self._scorer()
        try:
            if not paths:
                raise DataError("the dataset is empty: give set_filelist files with examples")
            found = model.evaluate(paths, **self._read_options())
            self._count(model, found["logloss"])
        finally:
            self.net.close_unless_own(model)
        return found


def _by_operation(found: Mapping[str, float], seconds: float) -> str:
    """Returns a line with the times of a pass by operation."""
    spent = {name[:-len("_seconds")]: value for name, value in found.items() if name.endswith("_seconds") and
             name not in ("total_seconds", "other_seconds") and value > 0}
    spent["other"] = max(seconds - sum(spent.values()), 0)
    n = found["examples"]
    said = ", ".join(f"{name} {value:.3f} s" for name, value in spent.items())
    return f"{n:.0f} examples, {seconds:.2f} s: {said}; {seconds / max(n, 1) * 1e6:.3g} us an example"


_OTHER = {"fetch_handler": "use fetch_list and print_period",
          "trainer_desc": "the dataset and `thread` are the settings of a pass"}


def _check_other(function: str, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in _OTHER:
            raise ArgumentTypeError(f"{function}: there is no argument '{name}'")
        if value is not None:
            raise UsageError(f"{function}: {name} is not supported: {_OTHER[name]}")


class _Batch:
    """A batch that a program feeds. It is run as a pass over a temporary file with the batch's lines."""

    def __init__(self, program: Program, feed: Mapping[str, Any], fetch_list: Sequence[Any]) -> None:
        if program.net is None:
            raise UsageError("the program has no net: net(inputs, params) makes one")
        self.program, self.net = program, program.net
        self.slots = [*self.net.slots, self.net.label]
        self.text, self.examples = text_of_feed(self.slots, feed)
        self.names = _names_of(fetch_list)
        for name in self.names:
            if name != "predict" and "." not in program.state(name):
                _program.value_of(program, name)

    def _value(self, name: str, predicted: Callable[[], Any]) -> Any:
        name = self.program.state(name)
        if name == "predict":
            return predicted().reshape(-1, 1)
        if "." in name:
            return _program.state_of(self.program, name).state(name)
        return np.array([_program.value_of(self.program, name)], np.float32)

    def run(self) -> List[Any]:
        """Trains or evaluates, and returns the fetched values."""
        learns = self.net.rule is not None
        if learns and "predict" in self.names:
            raise UsageError("fetch_list: predict can be fetched only from a program without an optimizer, and this "
                             "one has called minimize(loss)")
        if learns and fleet.in_run():
            raise UsageError("exe.run: workers of a fleet learn from datasets, all in the same passes: "
                             "use train_from_dataset()")
        home = _disk.of_process("dataset")
        try:
            path = os.path.join(home, "batch")
            with _disk.new_file(path) as file:
                file.write(self.text.encode("ascii"))
            dataset = QueueDataset()
            dataset.set_use_var(self.slots)
            dataset.set_batch_size(self.examples)
            dataset.set_filelist([path])
            one = _Pass(self.program, dataset, 1, _Say(self.program, None, None, 1, self.examples))
            one.train() if learns else one.infer()
            return [self._value(name, lambda: one.predict(path)) for name in self.names]
        finally:
            _disk.remove_of_process(home)


class Executor(Named):
    """Runs programs."""

    holders = ("Executor",)

    def __init__(self, place: Any = None) -> None:
        if place is not None and not isinstance(place, CPUPlace):
            raise ArgumentTypeError(f"place: programs run on CPUPlace(), not {type(place).__name__}")

    def run(self, program: Optional[Program] = None, feed: Optional[Mapping[str, Any]] = None,
            fetch_list: Optional[Sequence[Any]] = None, feed_var_name: str = "feed", fetch_var_name: str = "fetch",
            scope: Any = None, return_numpy: bool = True, use_program_cache: bool = False, return_merged: bool = True,
            use_prune: bool = False) -> List[Any]:
        """Runs the startup program, or a batch of a net. The startup program sets the initial values of a program
        without a fleet; a second run resets them. In a fleet it has no effect, because init_worker does this. A batch
        needs feed={slot: array} (DataFeeder.feed makes it): a program with an optimizer trains on it, another program
        evaluates it. Returns the values named in fetch_list as arrays: the loss, metrics, and, for a program without an
        optimizer, 'predict', a probability for each example. The other arguments have no effect."""
        del feed_var_name, fetch_var_name, scope, return_numpy, use_program_cache, return_merged, use_prune
        if feed is not None and (program is None or program is not _program.default_startup_program()):
            return _Batch(program or _program.default_main_program(), feed, fetch_list or ()).run()
        if program is not None and program is not _program.default_startup_program():
            raise UsageError("exe.run() of a net needs feed={slot: array}, as DataFeeder.feed() makes it; a pass over "
                             "files is train_from_dataset() or infer_from_dataset()")
        if feed or fetch_list:
            raise UsageError("exe.run: a startup program has nothing to feed or to fetch")
        net = _program.default_main_program().net
        if net is None:
            return []
        if fleet.is_begun() and net.trained:
            raise UsageError("exe.run: the startup program sets initial values, but this fleet's net has learnt "
                             "already, and its rows stay on the servers: restart the run to begin again")
        if not fleet.is_begun() and net.begun:
            net.begin_again()
        net.begun = True
        return []

    def close(self) -> None:
        """Closes the model of a program that runs without a fleet."""
        net = _program.default_main_program().net
        if net is not None and not fleet.is_begun():
            net.forget()
            net.begun = False

    def train_from_dataset(self, program: Optional[Program] = None, dataset: Optional[DatasetBase] = None,
                           scope: Any = None, thread: int = 0, debug: bool = False,
                           fetch_list: Optional[Sequence[Any]] = None, fetch_info: Optional[Sequence[str]] = None,
                           print_period: int = 100, **other: Any) -> None:
        """Trains the net for one pass over this worker's part of the data. In a fleet all workers call it, and it
        returns when all workers have finished. thread: the number of threads, which is fixed by the first call; 0: that
        of the dataset. fetch_list, fetch_info, print_period: values to print every print_period batches, and their
        labels. debug: print the times of the pass."""
        del scope
        _check_other("train_from_dataset", other)
        self._pass(program, dataset, thread, debug, fetch_list, fetch_info, print_period, True)

    def infer_from_dataset(self, program: Optional[Program] = None, dataset: Optional[DatasetBase] = None,
                           scope: Any = None, thread: int = 0, debug: bool = False,
                           fetch_list: Optional[Sequence[Any]] = None, fetch_info: Optional[Sequence[str]] = None,
                           print_period: int = 100, **other: Any) -> None:
        """Evaluates the model of the last pass on the dataset, and sets the loss and the metrics, without training. Any
        worker may call it on its own; workers other than worker 0 must be able to read worker 0's $TMPDIR. The
        arguments are those of train_from_dataset."""
        del scope
        _check_other("infer_from_dataset", other)
        self._pass(program, dataset, thread, debug, fetch_list, fetch_info, print_period, False)

    @staticmethod
    def _pass(program: Optional[Program], dataset: Optional[DatasetBase], thread: int, debug: bool,
              fetch_list: Optional[Sequence[Any]], fetch_info: Optional[Sequence[str]], period: int,
              train: bool) -> None:
        if not isinstance(dataset, DatasetBase):
            raise ArgumentTypeError("dataset: must be a QueueDataset or an InMemoryDataset")
        program = program or _program.default_main_program()
        say = _Say(program, fetch_list, fetch_info, period, dataset.batch_size)
        begin = time.monotonic()
        one = _Pass(program, dataset, thread, say)
        found = one.train() if train else one.infer()
        if debug:
            print(_by_operation(found, time.monotonic() - begin), flush=True)
