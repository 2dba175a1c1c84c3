"""The gate of a run: server 0 opens it by a row, and says there what the run begins with; workers wait for it.

The row's first float is 1 when it is open, the second says how many bytes of JSON are in the rows behind it, two a
float.

SPDX-License-Identifier: Apache-2.0
"""

import os
import time
from typing import TYPE_CHECKING, List, NamedTuple, Optional

import numpy as np

from tug._errors import DataError, Timeout
from tug.fleet._exchange import said_of, value_of
from tug.fleet._program import TABLES

if TYPE_CHECKING:
    from tug._client import Client
    from tug._table import Table

GATE = 3  # the number of its table
ROW = 1024  # floats
NOTE_MAX = 16 << 10
LOOK_SECONDS = 0.02  # between two looks


class Begins(NamedTuple):
    """What a run begins with: a save, or some of its tables ("sparse,dense"); None: all."""

    directory: str
    tables: Optional[str]


def _table(client: "Client") -> "Table":
    return client.table("fleet_gate", accessor="plain", dim=ROW, rule="sum", number=GATE)


def open_gate(client: "Client", begins: Optional[Begins]) -> None:
    """Workers go on from here."""
    said = b"" if begins is None else said_of(list(begins))
    if len(said) > NOTE_MAX:
        raise DataError(f"init_server: the path is longer than {NOTE_MAX} bytes")
    table = _table(client)
    if said:
        padded = said + b"\0" * (-len(said) % (2 * ROW))
        rows = np.frombuffer(padded, "<u2").astype(np.float32).reshape(-1, ROW)
        table.assign(np.arange(1, len(rows) + 1, dtype=np.uint64), rows)
    head = np.zeros((1, ROW), np.float32)
    head[0, :2] = 1, len(said)
    table.assign([0], head)


def _begins(table: "Table", size: float) -> Optional[Begins]:
    if size == 0:
        return None
    if not 0 < size <= NOTE_MAX or size != int(size):
        raise DataError(f"server 0 says what the run begins with in {size:.3g} bytes, and can have {NOTE_MAX}")
    n = int(size)
    rows = table.pull(np.arange(1, -(-n // (2 * ROW)) + 1, dtype=np.uint64))
    if not ((rows >= 0) & (rows < 1 << 16)).all():
        raise DataError("server 0 has said what is no value")
    said: List[Optional[str]] = value_of(rows.astype("<u2").tobytes()[:n], "server 0")
    if not (isinstance(said, list) and len(said) == 2 and isinstance(said[0], str) and os.path.isabs(said[0])):
        raise DataError("server 0 says that the run begins with what is no path")
    if said[1] is not None and not (isinstance(said[1], str) and set(said[1].split(",")) <= set(TABLES.values())):
        raise DataError(f"server 0 says that the run begins with tables that a net does not have: {said[1]!r}")
    return Begins(said[0], said[1])


def wait_at_gate(client: "Client") -> Optional[Begins]:
    """What the run begins with, when the gate is open."""
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
