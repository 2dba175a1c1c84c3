"""Tables: rows of floats under 64-bit keys, pushed to and pulled from with numpy.

SPDX-License-Identifier: Apache-2.0
"""

import math
import re
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from tug._abi import ffi
from tug._arrays import (ArrayLike, Floats, Keys, Path, array_of, floats_of, keys_of, of_floats, of_keys, out_of, real,
                         whole, word)
from tug._errors import ArgumentTypeError, UsageError
from tug._library import lib
from tug._request import Flight, Request

if TYPE_CHECKING:
    from tug._client import Client
    from tug._dense import Dense

Setting = Union[str, int, float, bool, Tuple[float, float]]
LAST_KEY = 2 ** 64 - 1


class TableStats(NamedTuple):
    """Statistics of a table over all servers (struct tug_table_stats)."""

    rows: int
    extra_rows: int  # rows that have an embedx part, too
    cold_rows: int
    bytes: int
    made: int
    refused: int  # keys in pushes to which the entry policy refused a row
    evicted_score: int
    evicted_age: int
    evicted_ttl: int
    evicted_budget: int
    hot_hits: int
    promoted: int
    demoted: int
    pushes: int
    pulls: int
    pushed_keys: int
    pulled_keys: int
    step: int
    day: int
    clock: int  # in mode sync the next batch, in mode ssp the slowest worker's clock


class TableLearning(NamedTuple):
    """A table's learning settings (struct tug_table_learning)."""

    rate: float  # lr of the rule, or of embed's rule; NaN: pushes have values, not gradients (rules sum, assign, ...)
    sync: bool # whether the mode is sync, in which pushes belong to batches (Table.batch)


def _setting(name: str, value: Setting) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, tuple) and len(value) == 2:
        low, high = (real(one, f"{name}: (low, high)", -math.inf, math.inf) for one in value)
        return f"{low!r}..{high!r}"
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name}: a setting is a text, a number, a bool or (low, high), not "
                                f"{type(value).__name__}")
    if ";" in value or "\n" in value:
        raise UsageError(f"{name}: a setting must not have ';' or a new line: '{value}'")
    return value


def settings_text(name: str, settings: str, more: Mapping[str, Setting]) -> bytes:
    """Returns a table's name and settings as the text that tug_table_create reads."""
    if not isinstance(settings, str):
        raise ArgumentTypeError(f"settings: must be a text, not {type(settings).__name__}")
    parts = [settings] if settings else []
    parts.append(f"name = {_setting('name', name)}")
    parts += [f"{k.replace('_', '-')} = {_setting(k, v)}" for k, v in more.items()]
    return word("\n".join(parts), "settings")


_PLACE = re.compile(r"line (\d+): (?:([a-z][a-z0-9-]*): )?")


def in_keywords(sentence: str, settings: str) -> str:
    """Rewords an error about settings: keeps its line number only if the line is in `settings`, the text that the
    program has given; otherwise names the keyword."""
    place = _PLACE.match(sentence)
    if place is None or int(place.group(1)) <= len(settings.splitlines()):
        return sentence
    name = "" if place.group(2) is None else place.group(2).replace("-", "_") + ": "
    return name + sentence[place.end():]


class Table:
    """A table of a cluster, made by Client.table or found by Client.find.

    Keys are integers in an array of any shape; arrays of rows have one axis more. Contiguous uint64 and float32 arrays
    are used without a copy; others are converted once. pull_width, push_width and assign_width are the numbers of
    floats of a key in a pull, push and assign; docs/tables.md describes them for each accessor.

    Any thread may use it. Methods raise ArgumentTypeError or UsageError for an array of a wrong type or shape, a value
    that is not finite, or a table that was dropped; such a call sends nothing. Further errors are those of Client."""

    def __init__(self, client: "Client", number: int, name: str) -> None:
        widths = ffi.new("struct tug_table_widths *")
        client._run(lib.tug_table_widths, number, widths)
        self.client = client
        self.number = number
        self.name = name
        self.pull_width: int = widths.pull
        self.push_width: int = widths.push
        self.assign_width: int = widths.assign
        self._known = (name, self.pull_width, self.push_width, self.assign_width)

    def __repr__(self) -> str:
        return f"<tug.Table {self.number} '{self.name}'>"

    def _check(self) -> None:
        # The library would use the table that has the number now, and assume arrays of that table's widths.
        if self.client._tables.get(self.number) != self._known:
            raise UsageError(f"table {self.number} '{self.name}' was dropped, or another table has its number now: "
                             "make or find the table again")

    def _ask(self, function: Any, *args: Any) -> None:
        self._check()
        self.client._run(function, self.number, *args)

    # ---------------------------------------------------------------- rows

    def _pull(self, keys: Any, out: Optional[Floats]) -> Tuple[Flight, Floats]:
        k = keys_of(keys)
        rows = out_of(out, k.shape + (self.pull_width,))
        arrays = (of_keys(k), of_floats(rows, True))
        return self.client._begin_request(lib.tug_pull, self, arrays, k.size, True), rows

    def _send(self, function: Any, keys: Any, values: Any, width: int, name: str) -> Tuple[Flight, Keys]:
        k = keys_of(keys)
        arrays = (of_keys(k), of_floats(floats_of(values, k.shape + (width,), name)))
        return self.client._begin_request(function, self, arrays, k.size, False), k

    def _push_pull(self, keys: Any, values: Any, out: Optional[Floats]) -> Tuple[Flight, Floats]:
        k = keys_of(keys)
        given = floats_of(values, k.shape + (self.push_width,), "values")
        rows = out_of(out, k.shape + (self.pull_width,))
        if out is not None and np.may_share_memory(given, rows):
            raise UsageError("out: must not share memory with the pushed values")
        arrays = (of_keys(k), of_floats(given), of_floats(rows, True))
        return self.client._begin_request(lib.tug_push_pull, self, arrays, k.size, False), rows

    def pull(self, keys: ArrayLike, out: Optional[Floats] = None) -> Floats:
        """Returns the current rows of the keys: an array of keys.shape + (pull_width,), or `out`. For a key without a
        row, returns its initial values; a pull makes no row."""
        flight, rows = self._pull(keys, out)
        self.client._end_request(flight)
        return rows

    def pull_async(self, keys: ArrayLike, out: Optional[Floats] = None) -> Request:
        """Sends a pull and returns at once: Request.wait() returns the rows. `out` and keys must not be changed until
        then."""
        flight, rows = self._pull(keys, out)
        return Request(self.client, flight, f"a pull of table {self.number}", rows)

    def push(self, keys: ArrayLike, values: ArrayLike) -> None:
        """Pushes gradients (amounts, for rule sum) of the keys: values of keys.shape + (push_width,). Values of a
        repeated key are added up. Returns when the servers have applied the push, exactly once."""
        self.client._end_request(self._send(lib.tug_push, keys, values, self.push_width, "values")[0])

    def push_async(self, keys: ArrayLike, values: ArrayLike) -> Request:
        """Sends a push and returns at once. The arrays must not be changed until the request is done."""
        flight, _ = self._send(lib.tug_push, keys, values, self.push_width, "values")
        return Request(self.client, flight, f"a push to table {self.number}", None)

    def push_pull(self, keys: ArrayLike, values: ArrayLike, out: Optional[Floats] = None) -> Floats:
        """Pushes, and returns the rows after the push, as pull() does. `out` must not overlap the values."""
        flight, rows = self._push_pull(keys, values, out)
        self.client._end_request(flight)
        return rows

    def push_pull_async(self, keys: ArrayLike, values: ArrayLike, out: Optional[Floats] = None) -> Request:
        """Sends a push_pull and returns at once: Request.wait() returns the rows."""
        flight, rows = self._push_pull(keys, values, out)
        return Request(self.client, flight, f"a push and pull of table {self.number}", rows)

    def assign(self, keys: ArrayLike, values: ArrayLike) -> None:
        """Sets the weights of the keys: values of keys.shape + (assign_width,). No key may repeat."""
        self.client._end_request(self._send(lib.tug_assign, keys, values, self.assign_width, "values")[0])

    def assign_async(self, keys: ArrayLike, values: ArrayLike) -> Request:
        """Sends an assign and returns at once. The arrays must not be changed until the request is done."""
        flight, _ = self._send(lib.tug_assign, keys, values, self.assign_width, "values")
        return Request(self.client, flight, f"an assign to table {self.number}", None)

    def pull_range(self, first: int, n: int, out: Optional[Floats] = None) -> Floats:
        """Returns the rows of n keys, first, first + 1, ...: an array of (n, pull_width), or `out`."""
        rows = out_of(out, (whole(n, "n", 0, 2 ** 40), self.pull_width))
        self._ask(lib.tug_pull_range, whole(first, "first", 0, LAST_KEY), n, of_floats(rows, True))
        return rows

    def push_range(self, first: int, values: ArrayLike) -> None:
        """Pushes to n keys, first, first + 1, ...: values of (n, push_width), one row for each key."""
        array = array_of(values, "values")
        given = floats_of(array, array.shape[:1] + (self.push_width,), "values")
        self._ask(lib.tug_push_range, whole(first, "first", 0, LAST_KEY), len(given), of_floats(given))

    # ----------------------------------------- modes of synchronisation, and the life cycle of rows

    def tick(self, clock: int) -> None:
        """Moves this worker to `clock` in a table of mode ssp: its pushes of earlier clocks are done, and its pulls
        belong to this clock from now on. Call tick(0) first, so that other workers wait for this one from the start."""
        self._ask(lib.tug_tick, whole(clock, "clock", 0, LAST_KEY - 1))

    def batch(self, batch: int, part: int, parts: int) -> None:
        """Sets the batch of this worker in a table of mode sync. Its next pushes are part `part` (from 0) of the
        `parts` parts of the batch, and its pulls return rows with all earlier batches applied. A batch is applied when
        all parts have arrived, each as one push, which may have no keys. The next batch of a table is stat().clock."""
        self._ask(lib.tug_batch, whole(batch, "batch", 0, LAST_KEY), whole(part, "part", 0, 15),
                  whole(parts, "parts", 1, 16))

    def learning(self) -> TableLearning:
        """Returns the table's learning settings, without a request to the servers."""
        how = ffi.new("struct tug_table_learning *")
        self._ask(lib.tug_table_learning, how)
        return TableLearning(float(how.rate), bool(how.sync))

    def rate_factor(self, factor: float) -> None:
        """Sets the factor of the rules' learning rates for this worker's later pushes; it is 1 at first."""
        self._ask(lib.tug_rate_factor, real(factor, "factor", 0, 3e38))

    def finish(self) -> None:
        """Tells a table of mode ssp that this worker has finished, so that no worker waits for it."""
        self._ask(lib.tug_tick, LAST_KEY)

    def shrink(self, threshold: Optional[float] = None) -> int:
        """Decays shows and clicks, removes rows whose score is below `threshold` (None: the table's delete-threshold),
        and returns the number of removed rows. Only one worker calls it."""
        removed = ffi.new("uint64_t *")
        below = math.nan if threshold is None else real(threshold, "threshold", -math.inf, math.inf)
        self._ask(lib.tug_shrink, below, removed)
        return int(removed[0])

    def day(self) -> None:
        """Ends a day: adds one to the days for which each row was not seen. Only one worker calls it."""
        self._ask(lib.tug_day)

    def clear(self) -> None:
        """Removes all rows. Only one worker calls it."""
        self._ask(lib.tug_clear)

    def drop(self) -> None:
        """Removes the table itself from all servers. Its number and name are free again, and this object can no longer
        be used. Requests of other clients that are in flight for the table are refused."""
        self._ask(lib.tug_table_drop)
        self.client._forget(self.number)

    def stat(self) -> TableStats:
        """Returns the table's statistics, summed over all servers."""
        s = ffi.new("struct tug_table_stats *")
        self._ask(lib.tug_table_stat, s)
        return TableStats(*(int(getattr(s, name)) for name in TableStats._fields))

    def load(self, path: Path, name: Optional[str] = None) -> int:
        """Clears the table, loads the rows of table `name` (None: this table's name) from a save, and returns their
        number. path: a save, or a directory, whose newest save is loaded."""
        rows = ffi.new("uint64_t *")
        of = ffi.NULL if name is None else ffi.new("char[]", word(name, "name"))
        self._ask(lib.tug_load, word(path, "path"), of, rows)
        return int(rows[0])

    def dump(self, file: Path) -> None:
        """Pulls the whole table and writes it to a text file on this machine: a line for each row, sorted by key, with
        floats that are exact when they are read back. The file appears only when it is complete."""
        self._ask(lib.tug_dump, word(file, "file"))

    # ---------------------------------------------------------------- other uses of tables

    def dense(self, variables: Mapping[str, Union[int, Sequence[int], Tuple[Any, ...]]]) -> "Dense":
        """Returns a tug.Dense for variables that are stored in this table, given as {name: shape} or {name: (shape,
        init)}."""
        from tug._dense import Dense
        return Dense(self, variables)

    def auc_add(self, probabilities: ArrayLike, labels: ArrayLike) -> None:
        """Counts predictions with their labels (arrays of one shape) in this table, for auc(). The table needs accessor
        counter and dim 2."""
        p = array_of(probabilities, "probabilities")
        given = floats_of(p, p.shape, "probabilities")
        wanted = floats_of(labels, p.shape, "labels")
        self._ask(lib.tug_auc_add, of_floats(given), of_floats(wanted), given.size)

    def auc(self) -> Tuple[float, int]:
        """Returns the AUC of the predictions that all workers have counted (NaN if a class has none), and their
        number."""
        value, n = ffi.new("double *"), ffi.new("uint64_t *")
        self._ask(lib.tug_auc, value, n)
        return float(value[0]), int(n[0])


def count(pulled: Floats) -> npt.NDArray[np.float64]:
    """Returns the exact counts in rows that were pulled from a table of accessor counter: a new float64 array with half
    as many columns."""
    array = array_of(pulled, "pulled")
    if array.dtype.kind not in "fiu":
        raise ArgumentTypeError(f"pulled: must be floats, not {array.dtype}")
    exact: npt.NDArray[np.float64] = array.astype(np.float64)
    if exact.ndim == 0 or array.shape[-1] % 2 != 0:
        raise UsageError(f"pulled: has the shape {array.shape}, but each counter has two floats")
    return exact[..., 0::2] * 16777216.0 + exact[..., 1::2]
