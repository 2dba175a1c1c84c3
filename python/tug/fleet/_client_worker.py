"""The worker object of a Communicator that was given a client (fleet.client or another) instead of a FleetWrapper. Its
tables are those that the client has made or found.

SPDX-License-Identifier: Apache-2.0
"""

import math
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

import numpy as np

from tug._arrays import ArrayLike, keys_of, whole
from tug._errors import Error, UsageError
from tug.fleet._changes import NAME, Changes
from tug.fleet._others import FIRST_OWN
from tug.fleet.server_desc import Described

if TYPE_CHECKING:
    from tug._client import Client
    from tug._table import Table


class ClientWorker:
    """Gives a Communicator the methods of FleetWrapper that it needs, on top of a client."""

    def __init__(self, client: "Client", said: Optional[Described] = None) -> None:
        self.client = client
        self._tables: Dict[int, "Table"] = {}
        self._changes: Optional[Changes] = None
        for one in (said.tables if said is not None else ()):
            if one.number not in client.table_names():
                if one.number < FIRST_OWN:
                    raise UsageError(f"proto_txt: table {one.number}: numbers below {FIRST_OWN} are those of fleet's "
                                     f"own tables; give it {FIRST_OWN} or more")
                client.table(one.name, number=one.number, settings=one.settings)

    def worker_index(self) -> int:
        """Returns the worker's index among the workers."""
        return self.client.rank

    def worker_num(self) -> int:
        """Returns the number of workers."""
        return self.client.workers

    def table(self, table_id: int) -> "Table":
        """Returns the client's table of this number."""
        table_id = whole(table_id, "table_id", 0, 2 ** 32 - 1)
        if table_id not in self._tables:
            names = self.client.table_names()
            if table_id not in names:
                known = ", ".join(str(number) for number in sorted(names) if names[number] != NAME) or "none"
                raise UsageError(f"table_id: {table_id} is not one of this client's tables, {known}: make it with "
                                 "client.table(name, number=...)")
            self._tables[table_id] = self.client.find(names[table_id])
        return self._tables[table_id]

    def changes(self) -> Changes:
        """Returns the lists of the rows that workers have pushed to tables of sums."""
        if self._changes is None:
            self._changes = Changes(self.client, (), self.worker_index(), self.worker_num())
        return self._changes

    def is_of_sums(self, table_id: int) -> bool:
        """Returns whether the table is a table of sums, which adds pushed values to its rows."""
        table = self.table(table_id)
        if not math.isnan(table.learning().rate) or table.pull_width != table.push_width:
            return False
        try:  # a communicator refuses to merge pushes to other tables
            self.client.communicator([table], queue=2, merge=2).close()
        except Error:
            return False
        return True

    def push_sparse_param(self, table_id: int, keys: ArrayLike, values: ArrayLike) -> None:
        """Sets the weights of the keys (Table.assign)."""
        self.table(table_id).assign(keys, values)
        if self.is_of_sums(table_id):
            self.changes().add(table_id, np.unique(keys_of(keys)))

    def note_communicator(self, stop: Callable[[], None]) -> None:
        """Registers the function that stops the communicator; the client calls it before it leaves."""
        self.client.before_close(stop)

    def __getattr__(self, name: str) -> Any:
        """Refuses the functions that only a FleetWrapper has."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise UsageError(f"{name}: needs a FleetWrapper; with a client, use Table.dense() to pull and push dense "
                         "variables")
