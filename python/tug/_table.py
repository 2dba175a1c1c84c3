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
    extra_rows: int  # embedx that were earned
    cold_rows: int
    bytes: int
    made: int
    refused: int  # pushes that the entry policy kept out
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
    clock: int  # mode sync: the next batch; ssp: the slowest worker's


class TableLearning(NamedTuple):
    """A table's learning settings (struct tug_table_learning)."""

    rate: float  # lr of the rule, or of embed's; NaN: a push has values, not gradients (rules sum, assign, ...)
    sync: bool  # in batches: Table.batch


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
    """Returns settings as the text that tug_table_create reads."""
    if not isinstance(settings, str):
        raise ArgumentTypeError(f"settings: must be a text, not {type(settings).__name__}")
    parts = [settings] if settings else []
    parts.append(f"name = {_setting('name', name)}")
    parts += [f"{k.replace('_', '-')} = {_setting(k, v)}" for k, v in more.items()]
    return word("\n".join(parts), "settings")


_PLACE = re.compile(r"line (\d+): (?:([a-z][a-z0-9-]*): )?")


def in_keywords(sentence: str, settings: str) -> str:
    """Rewords an error about settings for the caller: line numbers count only the text that the program has given."""
    place = _PLACE.match(sentence)
    if place is None or int(place.group(1)) <= len(settings.splitlines()):
        return sentence
    name = "" if place.group(2) is None else place.group(2).replace("-", "_") + ": "
    return name + sentence[place.end():]


class Table:
    """A table of a cluster, made by Client.table or found by Client.find.

    Keys are integers of any shape; rows get one axis more. float32 and uint64 arrays that are contiguous
    are used where they lie; others are converted once. pull_width, push_width, assign_width: floats of a
    key in each; docs/tables.md says what they are for each accessor.

    Any thread may use it. ArgumentTypeError, UsageError: an array of another type or shape, named by its argument, a
    value that is not finite, a table that was dropped; then nothing was sent. Else as of Client."""

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
        # The library asks for rows by the number, and takes arrays to be as wide as the table that has it now.
        if self.client._tables.get(self.number) != self._known:
            raise UsageError(f"table {self.number} '{self.name}' was dropped, or its number is another table's now: "
                             "make it, or find it, again")

    def _ask(self, function: Any, *args: Any) -> None:
        self._check()
        self.client._run(function, self.number, *args)

    # Rows.

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
            raise UsageError("out: must not be memory of the values that are pushed")
        arrays = (of_keys(k), of_floats(given), of_floats(rows, True))
        return self.client._begin_request(lib.tug_push_pull, self, arrays, k.size, False), rows

    def pull(self, keys: ArrayLike, out: Optional[Floats] = None) -> Floats:
        """Returns the current rows of the keys: an array of keys.shape + (pull_width,), or `out`. Keys that
        were never pushed have what their row would begin with, and get none."""
        flight, rows = self._pull(keys, out)
        self.client._end_request(flight)
        return rows

    def pull_async(self, keys: ArrayLike, out: Optional[Floats] = None) -> Request:
        """Like pull, without waiting: Request.wait() returns the rows. `out` and keys must not be changed until
        then."""
        flight, rows = self._pull(keys, out)
        return Request(self.client, flight, f"a pull of table {self.number}", rows)

    def push(self, keys: ArrayLike, values: ArrayLike) -> None:
        """Pushes gradients (rule sum: amounts) of the keys: values of keys.shape + (push_width,). Values
        of a repeated key are added up. Applied exactly once; returns when that is done."""
        self.client._end_request(self._send(lib.tug_push, keys, values, self.push_width, "values")[0])

    def push_async(self, keys: ArrayLike, values: ArrayLike) -> Request:
        """Like push, without waiting. The arrays must not be changed until the request is done."""
        flight, _ = self._send(lib.tug_push, keys, values, self.push_width, "values")
        return Request(self.client, flight, f"a push to table {self.number}", None)

    def push_pull(self, keys: ArrayLike, values: ArrayLike, out: Optional[Floats] = None) -> Floats:
        """Pushes, and returns the rows after the push, like pull. `out` must not overlap the values."""
        flight, rows = self._push_pull(keys, values, out)
        self.client._end_request(flight)
        return rows

    def push_pull_async(self, keys: ArrayLike, values: ArrayLike, out: Optional[Floats] = None) -> Request:
        """Like push_pull, without waiting: wait() returns the rows."""
        flight, rows = self._push_pull(keys, values, out)
        return Request(self.client, flight, f"a push and pull of table {self.number}", rows)

    def assign(self, keys: ArrayLike, values: ArrayLike) -> None:
        """Sets weights instead of pushing gradients: keys.shape + (assign_width,). No key may repeat."""
        self.client._end_request(self._send(lib.tug_assign, keys, values, self.assign_width, "values")[0])

    def assign_async(self, keys: ArrayLike, values: ArrayLike) -> Request:
        """Like assign, without waiting."""
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

    # Lifecycle of its rows.

    def tick(self, clock: int) -> None:
        """mode=ssp: this worker's pushes of clocks below `clock` are acknowledged, and its pulls are of this
        clock from now on. Say 0 first, to be waited for from the start."""
        self._ask(lib.tug_tick, whole(clock, "clock", 0, LAST_KEY - 1))

    def batch(self, batch: int, part: int, parts: int) -> None:
        """mode=sync: from now on this worker's pushes are this part (from 0) of `parts` of the batch, and its
        pulls see all batches before it. A batch is applied when all parts are in, each by one push, of no keys
        where it has none. The next one is stat().clock."""
        self._ask(lib.tug_batch, whole(batch, "batch", 0, LAST_KEY), whole(part, "part", 0, 15),
                  whole(parts, "parts", 1, 16))

    def learning(self) -> TableLearning:
        """Returns the table's learning settings, without waiting."""
        how = ffi.new("struct tug_table_learning *")
        self._ask(lib.tug_table_learning, how)
        return TableLearning(float(how.rate), bool(how.sync))

    def rate_factor(self, factor: float) -> None:
        """Sets the factor of the rules' learning rates for this worker's later pushes; it is 1 at first."""
        self._ask(lib.tug_rate_factor, real(factor, "factor", 0, 3e38))

    def finish(self) -> None:
        """mode=ssp: tells that this worker has finished, so that no worker waits for it."""
        self._ask(lib.tug_tick, LAST_KEY)

    def shrink(self, threshold: Optional[float] = None) -> int:
        """Decays shows and clicks, removes rows whose score is too low, and returns the number of removed rows.
        threshold: in place of the table's delete-threshold. One worker calls it."""
        removed = ffi.new("uint64_t *")
        below = math.nan if threshold is None else real(threshold, "threshold", -math.inf, math.inf)
        self._ask(lib.tug_shrink, below, removed)
        return int(removed[0])

    def day(self) -> None:
        """Ends a day: rows count as unseen for one more day. One worker calls it."""
        self._ask(lib.tug_day)

    def clear(self) -> None:
        """Removes all rows. One worker calls it."""
        self._ask(lib.tug_clear)

    def drop(self) -> None:
        """Removes the table itself from all servers; its number and name are free again, and this object is of no use
        any more. Requests of others that are in flight for it are refused."""
        self._ask(lib.tug_table_drop)
        self.client._forget(self.number)

    def stat(self) -> TableStats:
        """Returns the table's statistics, summed over all servers."""
        s = ffi.new("struct tug_table_stats *")
        self._ask(lib.tug_table_stat, s)
        return TableStats(*(int(getattr(s, name)) for name in TableStats._fields))

    def load(self, path: Path, name: Optional[str] = None) -> int:
        """The rows of table `name` (None: this one's) of a save, or of the newest in a directory; the table
        is cleared first. How many."""
        rows = ffi.new("uint64_t *")
        of = ffi.NULL if name is None else ffi.new("char[]", word(name, "name"))
        self._ask(lib.tug_load, word(path, "path"), of, rows)
        return int(rows[0])

    def dump(self, file: Path) -> None:
        """Pulls the whole table and writes it here as text: a row a line, sorted by key, floats that read back as the
        same bits. The file is there when it is complete."""
        self._ask(lib.tug_dump, word(file, "file"))

    # Other uses of tables.

    def dense(self, variables: Mapping[str, Union[int, Sequence[int], Tuple[Any, ...]]]) -> "Dense":
        """Returns variables that are stored in this table, from {name: shape} or {name: (shape, init)}; see
        tug.Dense."""
        from tug._dense import Dense
        return Dense(self, variables)

    def auc_add(self, probabilities: ArrayLike, labels: ArrayLike) -> None:
        """Counts predictions, and labels of the same shape, in this table, of accessor counter and dim 2."""
        p = array_of(probabilities, "probabilities")
        given = floats_of(p, p.shape, "probabilities")
        wanted = floats_of(labels, p.shape, "labels")
        self._ask(lib.tug_auc_add, of_floats(given), of_floats(wanted), given.size)

    def auc(self) -> Tuple[float, int]:
        """Returns the AUC of all workers' predictions (NaN without both classes) and the number of predictions."""
        value, n = ffi.new("double *"), ffi.new("uint64_t *")
        self._ask(lib.tug_auc, value, n)
        return float(value[0]), int(n[0])


def count(pulled: Floats) -> npt.NDArray[np.float64]:
    """The exact counts in what was pulled from a table of accessor counter: a new float64 array with half as many
    columns."""
    array = array_of(pulled, "pulled")
    if array.dtype.kind not in "fiu":
        raise ArgumentTypeError(f"pulled: must be floats, not {array.dtype}")
    exact: npt.NDArray[np.float64] = array.astype(np.float64)
    if exact.ndim == 0 or array.shape[-1] % 2 != 0:
        raise UsageError(f"pulled: has the shape {array.shape}, and a counter is two floats")
    return exact[..., 0::2] * 16777216.0 + exact[..., 1::2]
