"""Further functions of Paddle's fleet: shrinking, dense parameters as files, saving and loading of single tables, and
names of other Paddle versions.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence

import numpy as np

from tug import _disk
from tug._arrays import Path, whole
from tug._errors import DataError, UsageError
from tug._library import lib
from tug._table import TableStats
from tug.fleet._changes import NAME
from tug.fleet._exchange import shown

if TYPE_CHECKING:
    from tug._client import Client
    from tug._table import Table
    from tug.fleet._exchange import Exchange
    from tug.fleet._program import DeclaredNet

DENSE = "dense"  # the table of a net's layers
FIRST_OWN = 5  # the lowest number of a program's own table; smaller ones are fleet's
DENSE_FILE = "dense.npy"
MODES = {0: "checkpoint", 1: "delta", 2: "base", 3: "day"}


def mode_of(given: Any) -> int:
    """Returns the mode of a save or a load, given as 0 to 3 or, as in Paddle's clients, as a text with that number."""
    if isinstance(given, str) and given in ("0", "1", "2", "3"):
        return int(given)
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given not in MODES:
        raise UsageError(f"mode: {given!r} is not one of {', '.join(f'{k} ({v})' for k, v in MODES.items())}")
    return int(given)


def shown_stats(stats: TableStats) -> str:
    """Returns the servers' statistics of a table as one line of text."""
    return ", ".join(f"{name} {value}" for name, value in stats._asdict().items())


class Others:
    """The methods of Fleet besides those for the life cycle of a run. Only a worker calls them, between init_worker and
    stop_worker."""

    if TYPE_CHECKING:  # the members of Fleet that the methods use
        @property
        def client(self) -> "Client": ...

        @property
        def exchange(self) -> "Exchange": ...

        def is_first_worker(self) -> bool: ...

        def _net(self) -> "DeclaredNet": ...

        def _first_saves(self, what: str, where: Path, work: Callable[[], str]) -> Optional[str]: ...

        def load_model(self, path: Path, mode: int = 0) -> None: ...

        def save_persistables(self, executor: Any, dirname: Path, main_program: Any = None,
                              mode: int = 0) -> Optional[str]: ...

    def _first_does(self, what: str, work: Callable[[], Any]) -> Any:
        # Runs `work` on worker 0; all other workers wait until it has ended. If it fails, all workers raise an error,
        # so that none waits for ever.
        failed: Optional[Exception] = None
        done: Any = None
        self.client.barrier()
        if self.is_first_worker():
            try:
                done = work()
            except Exception as error:  # noqa: B902
                failed = error
        said = self.exchange.gather([None if failed is None else str(failed), done])
        if failed is not None:
            raise failed
        first = said[0]
        if not isinstance(first, list) or len(first) != 2 or not (first[0] is None or isinstance(first[0], str)):
            raise DataError(f"worker 0 has sent a damaged result of its attempt to {what}: {shown(first)}")
        if first[0] is not None:
            raise DataError(f"worker 0 could not {what}: {shown(first[0])}")
        return first[1]

    def shrink(self, threshold: Optional[float] = None) -> int:
        """Decays shows and clicks of the program's own tables (fleet.client.table), and removes rows whose score falls
        below the tables' threshold, or below `threshold`. Returns the number of removed rows. All workers call it."""
        names = [name for number, name in sorted(self.client.table_names().items()) if number >= FIRST_OWN and
                 name != NAME]
        if not names:
            raise UsageError("fleet.shrink: the rows of a net cannot be removed, and the program has no tables of its "
                             "own whose rows come and go (fleet.client.table(name, accessor='ctr', ...))")
        removed: int = self._first_does("shrink", lambda: sum(self.client.find(n).shrink(threshold) for n in names))
        return removed

    def save_dense_params(self, executor: Any, dirname: Path, scope: Any = None, program: Any = None,
                          var_names: Optional[Sequence[str]] = None) -> Optional[str]:
        """On worker 0, writes the net's dense parameters to dirname/dense.npy, one float32 numpy array with the rows of
        the table "dense" in the model's order, and returns the path. Other workers return None at once."""
        del executor, scope, program
        unknown = [name for name in var_names or () if name != DENSE]
        if unknown:
            raise UsageError(f"var_names: there is no {', '.join(unknown)}; a net's dense parameters are one array, "
                             f"'{DENSE}'")
        _ = self.client  # raises if this process is not a worker of a run
        return self._first_saves("the dense parameters", dirname, lambda: self._write_dense(dirname))

    def _write_dense(self, dirname: Path) -> str:
        table = self.client.find(DENSE)
        values = np.asarray(table.pull(np.arange(table.stat().rows, dtype=np.uint64)), np.float32).reshape(-1)
        directory = os.path.abspath(os.fspath(dirname))
        _disk.make_directory(directory)
        path = os.path.join(directory, DENSE_FILE)
        _disk.replace_file(path, lambda file: np.save(file, values))
        return path

    def _own(self, table_id: int) -> "Table":
        whole(table_id, "table_id", 0, lib.TUG_TABLES_MAX - 1)
        names = {n: name for n, name in sorted(self.client.table_names().items()) if n >= FIRST_OWN}
        if table_id not in names:
            own = ", ".join(f"{n} '{name}'" for n, name in names.items()) or "none"
            raise UsageError(f"table_id: {table_id} is not a table of the program's own (fleet.client.table(name, "
                             f"number={FIRST_OWN}, ...)); those are {own}. A net's tables are saved together, by "
                             "save_persistables")
        return self.client.find(names[table_id])

    def save_one_table(self, table_id: int, path: Path, mode: int = 0) -> Optional[str]:
        """On worker 0, lets the servers save a table of the program's own below `path`, and returns the path of the
        save. Other workers return None at once. mode: 0 (all rows), 1 (delta), 2 (base) or 3 (day); see Client.save."""
        table, mode = self._own(table_id), mode_of(mode)
        return self._first_saves(f"table {table_id} by mode {mode}", path,
                                 lambda: self.client.save(path, mode=MODES[mode], tables=[table]))

    def load_one_table(self, table_id: int, path: Path, mode: int = 0) -> None:
        """Loads rows of a save into a table of the program's own. All workers call it, and return when the rows are
        loaded."""
        mode_of(mode)  # only checked: a save tells its own mode
        table = self._own(table_id)
        self._first_does("load", lambda: table.load(path) and None)

    def save_inference_model(self, executor: Any, dirname: Path, feeded_var_names: Optional[Sequence[str]] = None,
                             target_vars: Any = None, main_program: Any = None, export_for_deployment: bool = True,
                             mode: int = 0) -> Optional[str]:
        """On worker 0, writes the net (slots, layers and rows) into `dirname` and returns the path; other workers
        return None at once. tug.Scorer, tug.load, `tug predict` and tug/score.h can use the save without this script.
        feeded_var_names: the names of all slots of the net."""
        del target_vars, export_for_deployment
        net = self._net()
        net.check_feeds(feeded_var_names)
        return self.save_persistables(executor, dirname, main_program, mode)

    def load_inference_model(self, dirname: Path, mode: int = 0) -> None:
        """Does the same as load_model, because a save always has the whole net."""
        self.load_model(dirname, mode)

    def save(self, dirname: Path, feed: Optional[Sequence[str]] = None, fetch: Any = None,
             **configs: Any) -> Optional[str]:
        """Saves the net, as Paddle 2's fleet.save does: the same as save_inference_model with feed and fetch."""
        mode = configs.pop("mode", 0)
        if configs:
            raise UsageError(f"fleet.save: there is no {', '.join(configs)}; there are dirname, feed, fetch, mode")
        return self.save_inference_model(None, dirname, feed, fetch, mode=mode)

    def shrink_sparse_table(self) -> int:
        """Does the same as shrink()."""
        return self.shrink()

    def _own_numbers(self) -> List[int]:
        numbers = [number for number, name in sorted(self.client.table_names().items()) if
                   FIRST_OWN <= number < lib.TUG_TABLES_MAX and name != NAME]
        if not numbers:
            raise UsageError("the run has no tables of the program's own (fleet.client.table(name, ...)); the rows of "
                             "a net cannot be cleared: restart the run instead")
        return numbers

    def clear_one_table(self, table_id: int) -> None:
        """Empties a table of the program's own. All workers call it."""
        table = self._own(table_id)
        self._first_does("clear", table.clear)

    def clear_model(self) -> None:
        """Empties all tables of the program's own. All workers call it."""
        tables = [self._own(number) for number in self._own_numbers()]

        def clear() -> None:
            for table in tables:
                table.clear()

        self._first_does("clear", clear)

    def print_table_stat(self, table_id: int, pass_id: int = 0, threshold: int = 0) -> None:
        """Prints the servers' statistics of a table that the program has made. pass_id and threshold have no effect:
        Paddle has them for its cache tables."""
        del pass_id, threshold
        print(f"table {table_id}: {shown_stats(self._own(table_id).stat())}", flush=True)
