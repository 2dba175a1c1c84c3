"""Datasets, the input of a pass: files, and a pipe command that converts them to MultiSlot lines, which the C library
reads (docs/data.md).

A line has, for each slot in the order of set_use_var, the number of values and the values. Unlike in Paddle, an id of 0
is a feature like any other, and a pipe command that fails is an error.

SPDX-License-Identifier: Apache-2.0
"""

import difflib
import os
import random
import subprocess
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from tug import _disk
from tug._arrays import whole, word
from tug._errors import DataError, UsageError
from tug.fleet._deal import deal
from tug.fleet._exchange import texts_of
from tug.fleet._names import Named, answer_for, no_such
from tug.fleet._origins import Lines, read_lines, tagged, untagged, write_origins
from tug.fleet._program import DeclaredNet, Variable


# Values of Paddle's settings that describe what tug does anyway, and are accepted. If a setting without a setter gets
# another value, the error has the text of the table in _names.py.
_SO_HERE: Dict[str, Sequence[Any]] = {
    "use_var": ([], ()), "input_type": (0,), "merge_size": (-1, 0), "parse_ins_id": (False,), "parse_content": (False,),
    "parse_logkey": (False,), "enable_pv_merge": (False,), "merge_by_sid": (True,), "merge_by_lineid": (False,),
    "fs_name": ("", None), "fs_ugi": ("", None), "download_cmd": ("cat", "", None), "queue_num": (-1, None),
    "fleet_send_batch_size": (None,), "fleet_send_sleep_seconds": (None,), "shuffle_by_uid": (False,),
    "data_feed_type": (None,), "use_ps_gpu": (False,), "generate_unique_feasigns": (False,)}
_SETTING = ("a dataset's setting",)
_FEEDS = ("MultiSlotDataFeed", "MultiSlotInMemoryDataFeed", "SlotRecordInMemoryDataFeed")


class DatasetBase(Named):
    """The base of both kinds of dataset."""

    holders: Tuple[str, ...] = ("a dataset",)

    def __init__(self) -> None:
        self.batch_size, self.thread_num = 1, 1
        self.files: List[str] = []
        self.slots: List[Variable] = []
        self.pipe_command = "cat"

    def _setters(self) -> Dict[str, Callable[[Any], None]]:
        return {"batch_size": self.set_batch_size, "thread_num": self.set_thread, "use_var": self.set_use_var,
                "pipe_command": self.set_pipe_command, "queue_num": self.set_queue_num,
                "fleet_send_batch_size": self.set_fleet_send_batch_size,
                "fleet_send_sleep_seconds": self.set_fleet_send_sleep_seconds, "feed_type": self.set_feed_type,
                "data_feed_type": self.set_feed_type, "download_cmd": self.set_download_cmd,
                "input_type": self.set_input_type}

    def _set(self, function: str, settings: Dict[str, Any]) -> None:
        setters = self._setters()
        for name, value in settings.items():
            if any(value is one or value == one for one in _SO_HERE.get(name, ())):
                continue
            why = answer_for(_SETTING, name)
            if why is not None:
                raise UsageError(f"dataset.{function}: {name}={value!r}: {why}")
            if name not in setters:
                near = difflib.get_close_matches(name, setters, 1)
                raise UsageError(f"dataset.{function} has no '{name}'; " + (
                    f"did you mean '{near[0]}'?" if near else f"there are {', '.join(setters)}"))
            setters[name](value)

    def init(self, **settings: Any) -> None:
        """Calls the setters by name, as in Paddle 2.x: init(batch_size=32, ...). Settings that describe what tug does
        anyway (input_type=0, parse_ins_id=False, ...) are accepted."""
        self._set("init", settings)

    def update_settings(self, **settings: Any) -> None:
        """Changes some of the settings of init()."""
        self._set("update_settings", settings)

    def _init_distributed_settings(self, **settings: Any) -> None:
        self._set("_init_distributed_settings", settings)

    def desc(self) -> str:
        """Returns the slots of a line as text: the option `slots` of `tug train`, except that the label is not
        marked."""
        return ", ".join(f"{one.name}:{one.kind}" for one in self.slots)

    _desc = desc

    def __getattr__(self, name: str) -> Any:
        """Returns the setter without an underscore, because Paddle 2 has setters with one."""
        if name.startswith("_set_") and hasattr(type(self), name[1:]):
            return getattr(self, name[1:])
        return super().__getattr__(name[1:] if name.startswith("_set_") else name)

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Raises an error unless both arguments are empty."""
        self._set("set_hdfs_config", {"fs_name": fs_name, "fs_ugi": fs_ugi})

    def set_use_ps_gpu(self, use_ps_gpu: bool) -> None:
        """Raises an error if the argument is True."""
        self._set("set_use_ps_gpu", {"use_ps_gpu": bool(use_ps_gpu)})

    def set_queue_num(self, queue_num: int) -> None:
        """Has no effect: threads of a pass share one queue of pieces of text."""
        whole(queue_num, "queue_num", 1, 1 << 20)

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """Has no effect: global_shuffle bounds its messages by itself."""
        whole(fleet_send_batch_size, "fleet_send_batch_size", 1, 1 << 30)

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        """Has no effect: in global_shuffle the servers' speed limits the sending."""
        whole(fleet_send_sleep_seconds, "fleet_send_sleep_seconds", 0, 1 << 30)

    def set_feed_type(self, data_feed_type: str) -> None:
        """Has no effect: lines are always MultiSlot text. Raises an error for the name of an unknown data feed."""
        if data_feed_type not in _FEEDS:
            raise UsageError(f"set_feed_type: '{data_feed_type}' is not one of {', '.join(_FEEDS)}: lines are "
                             "MultiSlot text")

    def set_download_cmd(self, download_cmd: str) -> None:
        """Accepts only commands that leave files unchanged: use a pipe command to fetch files."""
        if download_cmd not in ("cat", ""):
            raise UsageError(f"set_download_cmd: '{download_cmd}': files are read by this machine; a pipe command can "
                             "fetch them: set_pipe_command('hadoop fs -cat ...')")

    def set_input_type(self, input_type: int) -> None:
        """Accepts only 0: a line is an example."""
        if input_type != 0:
            raise UsageError(f"set_input_type: {input_type} is not 0: a line is an example")

    def set_batch_size(self, batch_size: int) -> None:
        """Sets the number of examples in a worker's batch."""
        self.batch_size = whole(batch_size, "batch_size", 1, 1 << 20)

    def set_thread(self, thread_num: int) -> None:
        """Sets the number of training threads."""
        self.thread_num = whole(thread_num, "thread_num", 1, 256)

    def set_filelist(self, filelist: Sequence[str]) -> None:
        """Sets the files of this worker; see fleet.util.get_file_shard."""
        if isinstance(filelist, (str, bytes)):
            raise UsageError("filelist: must be a list of paths")
        self.files = [os.fspath(one) for one in filelist]

    def get_filelist(self) -> List[str]:
        """Returns the files of set_filelist."""
        return list(self.files)

    def set_use_var(self, var_list: Sequence[Variable]) -> None:
        """Sets all slots of a line, in their order."""
        if not isinstance(var_list, (list, tuple)) or not var_list or \
                not all(isinstance(one, Variable) for one in var_list):
            raise UsageError("var_list: must be a list of slots made by data()")
        self.slots = list(var_list)

    def set_pipe_command(self, pipe_command: str) -> None:
        """Sets the command that converts a file to lines: `sh -c` reads the file, decompressed if its name ends in
        .gz."""
        word(pipe_command, "pipe_command")
        self.pipe_command = pipe_command

    def _ready(self) -> None:
        if not self.slots:
            raise UsageError("dataset: call set_use_var first")
        missing = [one for one in self.files if not os.path.isfile(one)]
        if missing:
            raise DataError(f"{missing[0]}: there is no such file")

    @property
    def pipes(self) -> bool:
        """Whether a pass runs the pipe command to read the lines."""
        return self.pipe_command.strip() != "cat"

    def paths(self) -> List[str]:
        """Returns the files that a pass reads."""
        self._ready()
        return [os.path.abspath(one) for one in self.files]

    def text(self, net: DeclaredNet) -> str:
        """Returns the slots of a line as the option `slots` of `tug train`. Slots that the net does not use are marked
        "skip"."""
        missing = [one.name for one in [*net.slots, net.label] if one not in self.slots]
        if missing:
            raise UsageError(f"dataset: the net needs slots that set_use_var does not name: {', '.join(missing)}")
        said = []
        for one in self.slots:
            kind = "label" if one is net.label else "skip" if one not in net.slots else one.kind
            said.append(f"{one.name}:{kind}")
        return ", ".join(said)


class QueueDataset(DatasetBase):
    """A dataset whose files are read during training."""

    holders = ("a QueueDataset", "a dataset")


def _taken_apart(line: bytes, n: int, where: str) -> List[bytes]:
    """Splits a MultiSlot line into its n slots, each with its count and its values. `where` names the line in
    errors."""
    words, at, found = line.split(), 0, []
    for _ in range(n):
        count = words[at] if at < len(words) else b""
        end = at + 1 + int(count) if count.isdigit() else len(words) + 1
        if end > len(words):
            raise DataError(f"{where}: slots_shuffle: the line does not have {n} slots of MultiSlot text")
        found.append(b" ".join(words[at:end]))
        at = end
    if at != len(words):
        raise DataError(f"{where}: slots_shuffle: the line has more than {n} slots")
    return found


class InMemoryDataset(DatasetBase):
    """A dataset that runs the pipe command once and keeps its output in files below $TMPDIR. Passes read these files,
    each pass in another order."""

    holders = ("an InMemoryDataset", "a dataset")

    def __init__(self) -> None:
        super().__init__()
        self._held: Optional[List[str]] = None
        self._home: Optional[str] = None
        self._shuffled = False
        self._piped = False  # whether the files in memory are the output of the pipe command
        self._loading: Optional[threading.Thread] = None
        self._failed: Optional[BaseException] = None
        self._random = random.Random(1)
        self._fea_eval = False
        self._before: Optional[List[str]] = None # the files before slots_shuffle

    def set_shuffle_seed(self, seed: int) -> None:
        """Sets the seed of the following global shuffles."""
        self._random = random.Random(whole(seed, "seed", 0, 2 ** 63))

    def _file(self, name: str) -> str:
        if self._home is None:
            self._home = _disk.of_process("dataset")
            weakref.finalize(self, _disk.remove_of_process, self._home)
        return os.path.join(self._home, name)

    def _made(self, number: int) -> str:
        file = self.files[number]
        made = self._file(f"{number}-{os.path.basename(file)}.txt")
        shell = f"gzip -dc | ( {self.pipe_command} )" if file.endswith(".gz") else self.pipe_command
        with open(file, "rb") as source, _disk.own_file(made) as to:
            code = subprocess.run(["sh", "-c", shell], stdin=source, stdout=to, check=False).returncode
        if code != 0:
            raise DataError(f"{file}: the pipe command ended with exit code {code}: {self.pipe_command}")
        if os.path.getsize(made) == 0:
            if os.path.getsize(file) > 0:
                raise DataError(f"{file}: the pipe command wrote nothing: {self.pipe_command}")
            return os.path.abspath(file)  # an error about an empty file then names the user's file
        write_origins(made, [os.path.abspath(file)], np.zeros(1, np.int64), np.ones(1, np.int64), True)
        return made

    def _load(self) -> List[str]:
        self._ready()
        self._piped = super().pipes
        if not self._piped:
            return [os.path.abspath(one) for one in self.files]
        self._file("")
        with ThreadPoolExecutor(self.thread_num) as threads:
            return list(threads.map(self._made, range(len(self.files))))

    def load_into_memory(self, is_shuffle: bool = False) -> None:
        """Runs the pipe command on this worker's files."""
        del is_shuffle  # every pass has another order anyway
        if self._loading is not None:
            raise UsageError("load_into_memory: preload_into_memory still runs; call wait_preload_done")
        self._held, self._shuffled, self._before = self._load(), False, None

    def _preload(self) -> None:
        try:
            self._preloaded = self._load()
        except BaseException as error:
            self._failed = error

    def preload_into_memory(self, thread_num: Optional[int] = None) -> None:
        """Like load_into_memory, on a thread; wait_preload_done waits for it."""
        del thread_num
        if self._loading is not None:
            raise UsageError("preload_into_memory: runs already")
        self._failed = None
        self._loading = threading.Thread(target=self._preload, daemon=True)
        self._loading.start()

    def wait_preload_done(self) -> None:
        """Waits until preload_into_memory is done. The next pass reads the loaded data."""
        if self._loading is None:
            raise UsageError("wait_preload_done: call preload_into_memory first")
        self._loading.join()
        self._loading = None
        if self._failed is not None:
            raise self._failed
        self._held, self._shuffled, self._before = self._preloaded, False, None

    @property
    def pipes(self) -> bool:
        return False # load_into_memory has run the command

    def paths(self) -> List[str]:
        if self._held is None:
            raise UsageError("dataset: is not in memory; call load_into_memory first")
        return list(self._held)

    def _hold(self, name: str, lines: Lines) -> None:
        path = self._file(name)
        with _disk.own_file(path) as file:
            file.writelines(lines.text)
        write_origins(path, lines.files, lines.file, lines.line, self._piped)
        self._held = [path] if lines.text else []

    def local_shuffle(self) -> None:
        """Has no further effect: every pass shuffles this worker's examples, within pieces of 1 to 32 MB of text, and
        the order of the pieces."""
        self.paths()

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """With a fleet, sends each example of all workers to a random worker, all with the same probability; all
        workers call it. Without a fleet it does the same as local_shuffle."""
        del thread_num
        self.paths()
        if fleet is not None and fleet.worker_num() > 1:
            own = read_lines(self.paths())
            said = [texts_of(one, f"worker {i}") for i, one in enumerate(fleet.util.all_gather(own.files))]
            first = sum(map(len, said[:fleet.worker_index()]))
            dealt = deal(fleet, tagged(own, first), self._random.getrandbits(63))
            self._random.shuffle(dealt)
            self._hold("dealt.txt", untagged(dealt, sum(said, [])))
        self._shuffled, self._before = True, None

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Allows or forbids slots_shuffle. record_candidate_size has no effect: values are shuffled over all of this
        worker's examples."""
        whole(record_candidate_size, "record_candidate_size", 1, 1 << 40)
        self._fea_eval = bool(fea_eval)

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Shuffles the values of these slots between this worker's examples, and leaves other slots unchanged. The AUC
        of a following infer_from_dataset shows how much the model depends on these slots. Each call starts from the
        unshuffled examples."""
        if not self._fea_eval:
            raise UsageError("slots_shuffle: call set_fea_eval(record_candidate_size, True) first")
        if isinstance(slots, (str, bytes)):
            raise UsageError("slots: must be a list of names")
        names = [one.name for one in self.slots]
        unknown = [one for one in slots if one not in names]
        if unknown:
            raise UsageError(f"slots: there is no {', '.join(unknown)}; there are {', '.join(names)}")
        if self._before is None:
            self._before = self.paths()
        self._held = self._before
        before = read_lines(self._held)
        lines = [_taken_apart(line, len(names), before.where(i)) for i, line in enumerate(before.text)]
        for place in sorted(names.index(one) for one in slots):
            column = [line[place] for line in lines]
            self._random.shuffle(column)
            for line, value in zip(lines, column):
                line[place] = value
        self._hold("slots.txt", before._replace(text=[b" ".join(line) + b"\n" for line in lines]))

    # Setters for fields that lines do not have in tug. They accept only the value that switches the field off.

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Accepts only False."""
        self._set("set_parse_ins_id", {"parse_ins_id": parse_ins_id})

    def set_parse_content(self, parse_content: bool) -> None:
        """Accepts only False."""
        self._set("set_parse_content", {"parse_content": parse_content})

    def set_parse_logkey(self, parse_logkey: bool) -> None:
        """Accepts only False."""
        self._set("set_parse_logkey", {"parse_logkey": parse_logkey})

    def set_merge_by_sid(self, merge_by_sid: bool) -> None:
        """Accepts only True: lines have no page views to merge."""
        self._set("set_merge_by_sid", {"merge_by_sid": merge_by_sid})

    def set_enable_pv_merge(self, enable_pv_merge: bool) -> None:
        """Accepts only False."""
        self._set("set_enable_pv_merge", {"enable_pv_merge": enable_pv_merge})

    def set_shuffle_by_uid(self, enable_shuffle_uid: bool) -> None:
        """Accepts only False."""
        self._set("set_shuffle_by_uid", {"shuffle_by_uid": enable_shuffle_uid})

    def set_generate_unique_feasigns(self, generate_uni_feasigns: bool, shard_num: int = 0) -> None:
        """Accepts only False."""
        del shard_num
        self._set("set_generate_unique_feasigns", {"generate_unique_feasigns": generate_uni_feasigns})

    def _setters(self) -> Dict[str, Callable[[Any], None]]:
        return {**super()._setters(), "fea_eval": self._switch_fea_eval,
                "candidate_size": lambda n: self.set_fea_eval(n, self._fea_eval)}

    def _switch_fea_eval(self, fea_eval: bool) -> None:
        self._fea_eval = bool(fea_eval)

    def set_preload_thread_num(self, thread_num: int) -> None:
        """Has no effect: set_thread sets the number of threads that read files."""
        whole(thread_num, "thread_num", 1, 256)

    def release_memory(self) -> None:
        """Frees the examples."""
        self._held, self._shuffled, self._before = None, False, None

    def _size(self, fleet: Any) -> int:
        n = 0 if self._held is None else len(read_lines(self._held).text)
        return n if fleet is None else int(fleet.util.all_reduce(n))

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """Returns the number of examples: this worker's, or with a fleet all workers', which must all call it."""
        return self._size(fleet)

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """Like get_memory_data_size, for the examples of the last global_shuffle."""
        if fleet is None and not self._shuffled:
            return 0
        return self._size(fleet) if self._shuffled else int(fleet.util.all_reduce(0))


class DatasetFactory:
    """Paddle 1.x's factory of datasets."""

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> DatasetBase:
        """Creates a QueueDataset or an InMemoryDataset."""
        kinds = {"QueueDataset": QueueDataset, "InMemoryDataset": InMemoryDataset}
        if datafeed_class not in kinds:
            raise no_such(["create_dataset", "tug.fleet"], datafeed_class, kinds)
        made: DatasetBase = kinds[datafeed_class]()
        return made
