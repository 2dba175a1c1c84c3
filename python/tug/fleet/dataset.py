"""Datasets: MultiSlot lines of files, through a pipe command, as batches of slots.

A line has, slot after slot in the order of set_use_var, how many values there are and the values. Ids of 0 count as
they are, and a pipe command that fails is an error: Paddle drops the ones and overlooks the other.

SPDX-License-Identifier: Apache-2.0
"""

import gzip
import itertools
import os
import random
import subprocess
import threading
from typing import Any, Callable, Dict, IO, Iterator, List, NoReturn, Optional, Sequence

import numpy as np

from tug._arrays import whole, word
from tug._errors import DataError, UsageError
from tug.fleet._deal import deal
from tug.fleet._lines import Lines, joined
from tug.fleet._program import Variable

CHUNK = 4096  # lines that are read at a time
ID_MAX = 2 ** 64 - 1


def _broken(where: str, why: str) -> NoReturn:
    raise DataError(f"{where}: {why}")


class _Parser:
    """Lines of one set of slots."""

    def __init__(self, slots: Sequence[Variable]) -> None:
        self.slots = list(slots)

    def parse(self, lines: Sequence[bytes], file: str, first: int) -> Lines:
        """Lines `first` and following of the file."""
        start: List[int] = [0]
        slot: List[int] = []
        raw: List[int] = []
        value: List[float] = []
        for number, line in enumerate(lines, first):
            words, at = line.split(), 0
            if not words:
                _broken(f"{file}:{number}", "the line is empty")
            for place, variable in enumerate(self.slots):
                n = self._count(words, at, variable, f"{file}:{number}")
                values, at = words[at + 1:at + 1 + n], at + 1 + n
                slot += [place] * n
                if variable.dtype == "int64":
                    raw += self._ids(values, variable, f"{file}:{number}")
                    value += [1.0] * n
                else:
                    raw += range(n)
                    value += self._numbers(values, variable, f"{file}:{number}")
            if at != len(words):
                _broken(f"{file}:{number}", f"behind the last slot, '{self.slots[-1].name}', {len(words) - at} words "
                                            "are left: set_use_var must name all slots, in the order of the line")
            start.append(len(slot))
        return Lines(np.array(start, np.int64), np.array(slot, np.uint16), np.array(raw, np.uint64),
                     np.array(value, np.float32))

    @staticmethod
    def _count(words: Sequence[bytes], at: int, variable: Variable, where: str) -> int:
        if at >= len(words) or not words[at].isdigit():
            what = f"is '{words[at].decode(errors='replace')}'" if at < len(words) else "is missing"
            _broken(where, f"the number of values of slot '{variable.name}' {what}")
        n = int(words[at])
        if at + n >= len(words):
            _broken(where, f"slot '{variable.name}' has {len(words) - at - 1} values, and says that they are {n}")
        if variable.lod_level == 0 and n != variable.width:
            _broken(where, f"slot '{variable.name}' has {n} values, and must have {variable.width} (lod_level=0)")
        return n

    @staticmethod
    def _ids(values: Sequence[bytes], variable: Variable, where: str) -> List[int]:
        for one in values:
            if not one.isdigit() or int(one) > ID_MAX:
                _broken(where, f"'{one.decode(errors='replace')}' of slot '{variable.name}' is not an id from 0 to "
                               "2^64 - 1")
        return [int(one) for one in values]

    @staticmethod
    def _numbers(values: Sequence[bytes], variable: Variable, where: str) -> List[float]:
        try:
            found = [float(one) for one in values]
        except ValueError:
            found = [float("nan")]
        if not all(abs(one) < 3e38 for one in found):
            _broken(where, f"slot '{variable.name}' has a value that is not a finite number")
        return found


class DatasetBase:
    """What both kinds have."""

    def __init__(self) -> None:
        self.batch_size, self.thread_num = 1, 1
        self.files: List[str] = []
        self.slots: List[Variable] = []
        self.pipe_command = "cat"

    def init(self, **settings: Any) -> None:
        """Paddle 2.x: the setters' values by name."""
        known: Dict[str, Callable[[Any], None]] = {
            "batch_size": self.set_batch_size, "thread_num": self.set_thread, "use_var": self.set_use_var,
            "pipe_command": self.set_pipe_command}
        for name, value in settings.items():
            if name == "input_type" and value == 0:
                continue
            if name not in known:
                raise UsageError(f"dataset.init: '{name}' is not there; there are {', '.join(known)}")
            known[name](value)

    def set_batch_size(self, batch_size: int) -> None:
        """Examples of a batch of one thread."""
        self.batch_size = whole(batch_size, "batch_size", 1, 1 << 20)

    def set_thread(self, thread_num: int) -> None:
        """Threads that train side by side."""
        self.thread_num = whole(thread_num, "thread_num", 1, 256)

    def set_filelist(self, filelist: Sequence[str]) -> None:
        """Files of this worker; see fleet.util.get_file_shard."""
        if isinstance(filelist, (str, bytes)):
            raise UsageError("filelist: must be a list of paths")
        self.files = [os.fspath(one) for one in filelist]

    def get_filelist(self) -> List[str]:
        """What set_filelist was given."""
        return list(self.files)

    def set_use_var(self, var_list: Sequence[Variable]) -> None:
        """All slots of a line, in its order."""
        if not var_list or not all(isinstance(one, Variable) for one in var_list):
            raise UsageError("var_list: must be slots made by data()")
        self.slots = list(var_list)

    def set_pipe_command(self, pipe_command: str) -> None:
        """What makes the lines of a file: `sh -c` reads the file, decompressed if its name ends in .gz."""
        word(pipe_command, "pipe_command")
        self.pipe_command = pipe_command

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Refused."""
        raise UsageError("set_hdfs_config: files are read by this machine; a pipe command can fetch them: "
                         "set_pipe_command('hadoop fs -cat ...')")

    def _ready(self) -> None:
        if not self.slots:
            raise UsageError("dataset: set_use_var comes first")
        missing = [one for one in self.files if not os.path.isfile(one)]
        if missing:
            raise DataError(f"{missing[0]}: there is no such file")

    def _chunks(self) -> Iterator[Lines]:
        self._ready()
        parser = _Parser(self.slots)
        for file in self.files:
            with _opened(file, self.pipe_command) as stream:
                first = 1
                while True:
                    lines = list(itertools.islice(stream, CHUNK))
                    if not lines:
                        break
                    yield parser.parse(lines, file, first)
                    first += len(lines)

    def batches(self) -> Iterator[Lines]:
        """One pass."""
        raise NotImplementedError


class _Piped:
    """The output of a pipe command, whose failure is an error of the file's."""

    def __init__(self, file: str, command: str) -> None:
        self.file, self.command = file, command
        shell = f"gzip -dc | ( {command} )" if file.endswith(".gz") else command
        with open(file, "rb") as source:
            self.process = subprocess.Popen(["sh", "-c", shell], stdin=source, stdout=subprocess.PIPE)

    def __enter__(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        if kind is not None:
            self.process.kill()
        code = self.process.wait()
        if kind is None and code != 0:
            raise DataError(f"{self.file}: the pipe command ended with exit code {code}: {self.command}")


def _opened(file: str, command: str) -> Any:
    if command.strip() != "cat":
        return _Piped(file, command)
    return gzip.open(file, "rb") if file.endswith(".gz") else open(file, "rb")


class QueueDataset(DatasetBase):
    """Files are read as they are trained on, in their order."""

    def batches(self) -> Iterator[Lines]:
        size, left = self.batch_size, joined([])
        for chunk in self._chunks():
            left = joined([left, chunk])
            whole_ones = left.n // size * size
            for first in range(0, whole_ones, size):
                yield left.take(np.arange(first, first + size))
            left = left.take(np.arange(whole_ones, left.n))
        if left.n > 0:
            yield left.take(np.arange(left.n))


class InMemoryDataset(DatasetBase):
    """Files are read once, into memory, and can be shuffled before each pass."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: Optional[Lines] = None
        self._order = np.zeros(0, np.int64)
        self._shuffled = False
        self._loading: Optional[threading.Thread] = None
        self._failed: Optional[BaseException] = None
        self._random = random.Random(1)

    def set_shuffle_seed(self, seed: int) -> None:
        """The seed of the shuffles that follow."""
        self._random = random.Random(whole(seed, "seed", 0, 2 ** 63))

    def load_into_memory(self, is_shuffle: bool = False) -> None:
        """Reads this worker's files."""
        if self._loading is not None:
            raise UsageError("load_into_memory: preload_into_memory is at work; call wait_preload_done")
        self._lines = joined(list(self._chunks()))
        self._order = np.arange(self._lines.n)
        self._shuffled = False
        if is_shuffle:
            self.local_shuffle()

    def _preload(self) -> None:
        try:
            self._preloaded = joined(list(self._chunks()))
        except BaseException as error:
            self._failed = error

    def preload_into_memory(self, thread_num: Optional[int] = None) -> None:
        """The same on a thread; wait_preload_done ends it."""
        del thread_num
        if self._loading is not None:
            raise UsageError("preload_into_memory: is at work already")
        self._failed = None
        self._loading = threading.Thread(target=self._preload, daemon=True)
        self._loading.start()

    def wait_preload_done(self) -> None:
        """What was preloaded is what the next pass reads."""
        if self._loading is None:
            raise UsageError("wait_preload_done: preload_into_memory comes first")
        self._loading.join()
        self._loading = None
        if self._failed is not None:
            raise self._failed
        self._lines, self._shuffled = self._preloaded, False
        self._order = np.arange(self._lines.n)

    def _loaded(self) -> Lines:
        if self._lines is None:
            raise UsageError("dataset: is not in memory; load_into_memory comes first")
        return self._lines

    def local_shuffle(self) -> None:
        """Another order of this worker's examples, also after a pass."""
        self._order = np.random.default_rng(self._random.getrandbits(64)).permutation(self._loaded().n)

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """With a fleet: every example of all workers comes to any of them with the same chance. All workers call it.
        Without one it is local_shuffle."""
        del thread_num
        if fleet is not None and fleet.worker_num() > 1:
            self._lines = deal(fleet, self._loaded(), self._random.getrandbits(63))
        self.local_shuffle()
        self._shuffled = True

    def release_memory(self) -> None:
        """Forgets the examples."""
        self._lines, self._order, self._shuffled = None, np.zeros(0, np.int64), False

    def _size(self, fleet: Any) -> int:
        n = 0 if self._lines is None else self._lines.n
        return n if fleet is None else int(fleet.util.all_reduce(n))

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """Examples in memory: this worker's, or with a fleet all workers', which all ask then."""
        return self._size(fleet)

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """Likewise, of what global_shuffle was called on."""
        if fleet is None and not self._shuffled:
            return 0
        return self._size(fleet) if self._shuffled else int(fleet.util.all_reduce(0))

    def batches(self) -> Iterator[Lines]:
        lines = self._loaded()
        for first in range(0, lines.n, self.batch_size):
            yield lines.take(self._order[first:first + self.batch_size])


class DatasetFactory:
    """Paddle 1.x's way to make one."""

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> DatasetBase:
        """QueueDataset or InMemoryDataset."""
        kinds = {"QueueDataset": QueueDataset, "InMemoryDataset": InMemoryDataset}
        if datafeed_class not in kinds:
            raise UsageError(f"datafeed_class: '{datafeed_class}' is none of {', '.join(kinds)}")
        made: DatasetBase = kinds[datafeed_class]()
        return made
