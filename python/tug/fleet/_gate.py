"""The gate of a run: server 0 opens it by a note, which says what the run begins with; workers wait for it. In the
same table each worker may leave a note when it leaves (_asked.py).

A note is rows: the first float of the first one is 1 when it is there, the second says how many bytes of JSON are in
the rows behind it, two a float.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from tug._errors import DataError, Error, Timeout
from tug.fleet._exchange import said_of, shown, value_of
from tug.fleet._program import TABLES

if TYPE_CHECKING:
    from tug._client import Client
    from tug._table import Table

GATE = 3  # the number of its table
ROW = 1024  # floats
NOTE_MAX = 16 << 10  # of the gate
LEFT_MAX = 1 << 20  # of a worker's note
WORKERS_NOTES = 1 << 32  # the key of worker 0's; each has as many keys
LOOK_SECONDS = 0.02  # between two looks


class Begins(NamedTuple):
    """A run's start: a save, or some of its tables ("sparse,dense"); None: all."""

    directory: str
    tables: Optional[str]


def _table(client: "Client") -> "Table":
    return client.table("fleet_gate", accessor="plain", dim=ROW, rule="sum", number=GATE)


def _write(table: "Table", key: int, said: bytes) -> None:
    """It appears when it is complete."""
    if said:
        padded = said + b"\0" * (-len(said) % (2 * ROW))
        rows = np.frombuffer(padded, "<u2").astype(np.float32).reshape(-1, ROW)
        table.assign(np.arange(key + 1, key + 1 + len(rows), dtype=np.uint64), rows)
    head = np.zeros((1, ROW), np.float32)
    head[0, :2] = 1, len(said)
    table.assign([key], head)


def _read(table: "Table", key: int, size: float, most: int, who: str) -> Any:
    """The value of a note whose first row says that it has `size` bytes."""
    if not 0 < size <= most or size != int(size):
        raise DataError(f"{who} has left a note of {size:.3g} bytes, and can have {most}")
    n = int(size)
    rows = table.pull(np.arange(key + 1, key + 1 + -(-n // (2 * ROW)), dtype=np.uint64))
    if not ((rows >= 0) & (rows < 1 << 16)).all():
        raise DataError(f"the answer of {who} is not a value")
    return value_of(rows.astype("<u2").tobytes()[:n], who)


def open_gate(client: "Client", begins: Optional[Begins]) -> None:
    """Workers go on from here."""
    said = b"" if begins is None else said_of(list(begins))
    if len(said) > NOTE_MAX:
        raise DataError(f"init_server: the path is longer than {NOTE_MAX} bytes")
    _write(_table(client), 0, said)


def _begins(table: "Table", size: float) -> Optional[Begins]:
    if size == 0:
        return None
    said: List[Optional[str]] = _read(table, 0, size, NOTE_MAX, "server 0")
    if not (isinstance(said, list) and len(said) == 2 and isinstance(said[0], str) and os.path.isabs(said[0])):
        raise DataError("the save that server 0 names for the run is not a path")
    if said[1] is not None and not (isinstance(said[1], str) and set(said[1].split(",")) <= set(TABLES.values())):
        raise DataError(f"server 0 says that the run begins with tables that a net does not have: {shown(said[1])}")
    return Begins(said[0], said[1])


def leave_note(client: "Client", worker: int, value: Any) -> None:
    """The data of this worker that others may read after it has left."""
    said = said_of(value)
    if len(said) > LEFT_MAX:
        raise DataError(f"the note of worker {worker} is longer than {LEFT_MAX} bytes")
    _write(_table(client), WORKERS_NOTES * (worker + 1), said)


def notes_left(client: "Client", workers: Sequence[int]) -> Dict[int, Any]:
    """The notes that these workers have left so far."""
    table = _table(client)
    heads = table.pull(np.array([WORKERS_NOTES * (one + 1) for one in workers], np.uint64))
    return {one: _read(table, WORKERS_NOTES * (one + 1), float(head[1]), LEFT_MAX, f"worker {one}")
            for one, head in zip(workers, heads) if head[0] != 0}


def wait_for_end(guest: "Client") -> None:
    """Waits until the last worker has left, at most wait_seconds; closes the client."""
    end = time.monotonic() + guest.wait_seconds
    with contextlib.suppress(Error):  # there is no cluster any more
        table = _table(guest)
        while time.monotonic() < end:
            table.pull([0])
            time.sleep(LOOK_SECONDS)
    with contextlib.suppress(Error):
        guest.close()


def wait_at_gate(client: "Client") -> Optional[Begins]:
    """Waits until the gate is open, and returns how the run begins."""
    table, end = _table(client), time.monotonic() + client.wait_seconds
    while True:
        head = table.pull([0])[0]
        if head[0] != 0:
            return _begins(table, float(head[1]))
        if time.monotonic() > end:
            raise Timeout(f"server 0 has not opened the run after {client.wait_seconds:.3g} s: servers must run this "
                          "script, too, as far as fleet.run_server() (tug launch starts it in every role; python -m "
                          "tug launch starts workers only)")
        time.sleep(LOOK_SECONDS)
