"""What workers tell each other: values of all of them, by way of a table on the servers.

Each worker writes its value as JSON into rows of its own, two bytes a float, and reads those of the others
between two barriers. Nothing that could be executed travels, and numbers arrive as they were sent.

SPDX-License-Identifier: Apache-2.0
"""

import json
from typing import TYPE_CHECKING, Any, Dict, List

import numpy as np
import numpy.typing as npt

from tug._errors import ArgumentTypeError, UsageError

if TYPE_CHECKING:
    from tug._client import Client
    from tug._table import Table

TABLE = 2  # its number in a fleet's run
ROW = 64  # floats of a row, two bytes each
SAID_MAX = 1 << 24  # bytes of one worker's value
REDUCTIONS: Dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iufb":
            raise ArgumentTypeError(f"input: arrays of numbers can be exchanged, not of {value.dtype}")
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"array", "dtype"}:
        return np.asarray(value["array"], value["dtype"])
    return value


def _rows(value: Any) -> npt.NDArray[np.float32]:
    try:
        said = json.dumps(_plain(value)).encode()
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"input: cannot be exchanged: {error}; numbers, texts, lists and arrays can") from error
    if len(said) > SAID_MAX:
        raise UsageError(f"input: is {len(said)} bytes as text, and can be {SAID_MAX} at most")
    framed = len(said).to_bytes(4, "little") + said
    framed += b"\0" * (-len(framed) % (2 * ROW))
    return np.frombuffer(framed, "<u2").astype(np.float32).reshape(-1, ROW)


class Exchange:
    """The table, and this worker's place in it."""

    def __init__(self, client: "Client", index: int, workers: int) -> None:
        self.client, self.index, self.workers = client, index, workers
        self.table: "Table" = client.table("fleet_exchange", accessor="plain", dim=ROW, rule="sum", number=TABLE)

    def _keys(self, index: int, first: int, n: int) -> npt.NDArray[np.uint64]:
        return (np.uint64(index) << np.uint64(32)) + np.arange(first, first + n, dtype=np.uint64)

    def said_by(self, index: int) -> Any:
        """The value under this number."""
        head = self.table.pull(self._keys(index, 0, 1)).astype("<u2").tobytes()
        size = int.from_bytes(head[:4], "little")
        more = -(-(size + 4) // (2 * ROW)) - 1
        rest = self.table.pull(self._keys(index, 1, more)).astype("<u2").tobytes() if more > 0 else b""
        return _restored(json.loads((head + rest)[4:4 + size]))

    def say(self, value: Any) -> None:
        """A value under this one's number."""
        rows = _rows(value)
        self.table.assign(self._keys(self.index, 0, len(rows)), rows)

    def gather(self, value: Any) -> List[Any]:
        """The values of all workers, by their indexes. All call it."""
        self.say(value)
        self.client.barrier()
        said = [self.said_by(i) for i in range(self.workers)]
        self.client.barrier()  # nobody writes the next value while another still reads
        return said

    def reduce(self, value: Any, mode: str) -> Any:
        """The sum, maximum or minimum of all workers' numbers, or arrays of one shape. All call it."""
        if mode not in REDUCTIONS:
            raise UsageError(f"mode: '{mode}' is none of {', '.join(REDUCTIONS)}")
        given = np.asarray(value)
        if given.dtype.kind not in "iufb":
            raise ArgumentTypeError(f"input: must be a number or an array of numbers, not {type(value).__name__}")
        said = [np.asarray(one) for one in self.gather(given)]
        shapes = sorted({one.shape for one in said})
        if len(shapes) > 1:
            raise UsageError(f"input: workers gave arrays of different shapes: {', '.join(map(str, shapes))}")
        reduced = REDUCTIONS[mode](np.stack(said), axis=0)
        return reduced if isinstance(value, np.ndarray) else reduced.item() if reduced.ndim == 0 else reduced.tolist()
