"""The part of FleetWrapper that pulls and pushes rows and dense variables of its tables, under the names of Paddle's
client (PSClient). Each request is done when the call returns.

SPDX-License-Identifier: Apache-2.0
"""

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, MutableMapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from tug._arrays import ArrayLike, Floats, Keys, Path, keys_of, kind_of, of_floats, out_of
from tug._dense import Variables
from tug._errors import ArgumentTypeError, UsageError
from tug._library import lib
from tug.fleet._changes import Changes, Reader
from tug.fleet.server_desc import Described

if TYPE_CHECKING:
    from tug._client import Client
    from tug._table import Table

Scope = MutableMapping[str, Any]


class ChangedRows(NamedTuple):
    """Changed rows: their keys, and their values on the servers."""

    keys: Keys
    values: Floats


def _settings(text: str) -> Dict[str, str]:
    parts = [one.partition("#")[0].partition("=") for line in text.split("\n") for one in line.split(";")]
    return {name.strip().replace("_", "-"): value.strip() for name, _, value in parts if name.strip()}


def scope_of(given: Any, name: str = "scope") -> Any:
    """Returns `given` if it is a dictionary; else raises ArgumentTypeError. `name` is the argument's name."""
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"{name}: must be a dict of arrays, {{name: array}}, not {kind_of(given)}")
    return given


def names_of(given: Any, name: str = "var_names") -> Optional[List[str]]:
    """Returns a list of names of variables, or None, which means all. Raises ArgumentTypeError for other values."""
    if given is None:
        return None
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) for one in given):
        raise ArgumentTypeError(f"{name}: must be a list of variables' names, not {kind_of(given)}")
    return list(given)


class OwnTables:
    """The methods of FleetWrapper for pulls and pushes. Only a worker calls them, between init_worker and
    stop_worker."""

    if TYPE_CHECKING:  # the members of FleetWrapper that the methods use
        _said: Described
        _tables: Dict[int, "Table"]
        _variables: Dict[int, Variables]

        @property
        def client(self) -> "Client": ...

        def table(self, table_id: int) -> "Table": ...

        def worker_index(self) -> int: ...

        def worker_num(self) -> int: ...

        def _ask(self, function: Any, *args: Any) -> None: ...

        def load_model(self, path: Path, mode: int = 0) -> None: ...

        def save_one_model(self, table_id: int, path: Path, mode: int = 0) -> str: ...

        def save_all_model(self, path: Path, mode: int = 0) -> str: ...

        def shrink_sparse_table(self, table_id: int, threshold: Optional[float] = None) -> int: ...

    _changes: Optional[Changes] = None
    _readers: Optional[Dict[int, Reader]] = None

    def _forget_tables(self) -> None:
        self._changes = self._readers = None

    # ---------------------------------------------------------------- dense variables

    def dense_variables(self, table_id: int, var_names: Optional[Sequence[str]], scope: Mapping[str, Any]) -> Variables:
        """Returns the variables of a dense table. If a prototxt text describes the table, the variables are the arrays
        of `scope` with the names var_names, one after the other."""
        scope, var_names = scope_of(scope), names_of(var_names)
        known = self._variables.get(table_id) if isinstance(table_id, (int, np.integer)) else None
        if known is None:
            raise UsageError(f"table_id: {table_id} is not a dense table; dense tables are "
                             f"{', '.join(map(str, self._variables)) or 'none'}")
        if table_id not in self._said.flat:
            unknown = [name for name in var_names or () if name not in known.at]
            if unknown:
                raise UsageError(f"var_names: there is no {', '.join(unknown)}; there are {', '.join(known.at)}")
            return known
        names = list(var_names or self._said.flat[table_id])
        missing = [name for name in names if name not in scope]
        if missing or not names:
            raise UsageError(f"scope: has no {', '.join(missing) or 'variables'} of table {table_id}: the tables' text "
                             f"gives only its size, {known.size} floats, so give var_names, and an array for each in "
                             "the scope")
        found = Variables({name: np.shape(scope[name]) for name in names})
        if found.size != known.size:
            raise UsageError(f"var_names: {', '.join(names)} have {found.size} floats, but table {table_id} has "
                             f"{known.size}")
        return found

    def push_dense_params(self, scope: Mapping[str, Any], table_id: int,
                          var_names: Optional[Sequence[str]] = None) -> None:
        """Sets the parameters of a dense table to the arrays of `scope`, {name: array of real numbers of its shape},
        without the table's update rule."""
        known = self.dense_variables(table_id, var_names, scope)
        names = list(known.at if var_names is None else var_names)
        missing = [name for name in known.at if name not in names or name not in scope]
        if missing:
            raise UsageError(f"push_dense_params: {', '.join(missing)} of table {table_id} is not given; all "
                             "variables are set together")
        flat = known.flat(scope, "scope")
        self._ask(lib.tug_wrapper_push_dense_params, table_id, of_floats(flat), flat.size)

    def pull_dense_views(self, table_id: int, known: Variables) -> Dict[str, Floats]:
        """Pulls the parameters, and returns them as views of one new array."""
        flat = np.empty(known.size, np.float32)
        self._ask(lib.tug_wrapper_pull_dense_params, table_id, of_floats(flat, True), flat.size)
        return known.views(flat)

    def pull_dense_params(self, scope: Scope, table_id: int, var_names: Optional[Sequence[str]] = None) -> None:
        """Pulls the parameters into the float32 arrays of `scope`, in place; adds arrays that `scope` lacks."""
        known = self.dense_variables(table_id, var_names, scope)
        names = list(known.at if var_names is None else var_names)
        out: Dict[str, Floats] = {name: out_of(scope[name], known.shapes[name], name) for name in names if
                                  name in scope}
        pulled = self.pull_dense_views(table_id, known)
        for name in names:
            if name in out:
                out[name][...] = pulled[name]
            else:
                scope[name] = pulled[name].copy()

    def blocks(self, table_id: int, gradients: Mapping[str, Any],
               var_names: Optional[Sequence[str]] = None) -> Tuple[Keys, Floats]:
        """Returns the gradients of dense variables as keys and rows, which can be pushed to their table: each key is a
        block of floats. Variables without a gradient have no blocks in it."""
        gradients, as_text = scope_of(gradients, "gradients"), table_id in self._said.flat
        known = self.dense_variables(table_id, (var_names or list(gradients)) if as_text else var_names, gradients)
        given = [name for name in (gradients if var_names is None else var_names) if name in gradients]
        unknown = [str(name) for name in given if name not in known.at]
        if unknown or not given:
            raise UsageError(f"gradients: there is no {', '.join(unknown) or 'variable'}; there are "
                             f"{', '.join(known.at)}")
        flat = known.flat({name: gradients[name] if name in given else np.zeros(shape, np.float32)
                           for name, shape in known.shapes.items()}, "gradients")
        width, keys, rows, first = self.table(table_id).push_width, [], [], 0
        for name, (begin, end) in self._variables[table_id].at.items():
            n = -(-(end - begin) // width)
            if as_text or name in given:
                part = np.zeros(n * width, np.float32)
                part[:end - begin] = flat[begin:end]
                keys.append(np.arange(first, first + n, dtype=np.uint64))
                rows.append(part.reshape(n, width))
            first += n
        return np.concatenate(keys), np.concatenate(rows)

    def push_dense(self, gradients: Mapping[str, Any], table_id: int,
                   var_names: Optional[Sequence[str]] = None) -> None:
        """Pushes gradients of dense variables, {name: array}; the table's rule applies them."""
        self.table(table_id).push(*self.blocks(table_id, gradients, var_names))

    # ---------------------------------------------------------------- rows

    def pull_sparse(self, table_id: int, keys: ArrayLike, out: Optional[Floats] = None) -> Floats:
        """Returns the rows of the keys (Table.pull). out: the array to write them to."""
        return self.table(table_id).pull(keys, out)

    def push_sparse(self, table_id: int, keys: ArrayLike, values: ArrayLike) -> None:
        """Pushes gradients of the keys (Table.push), or, for a table of sums, amounts to add. For a table of sums,
        pull_geo_param of all workers then returns these rows."""
        self.table(table_id).push(keys, values)
        self._note_changed(table_id, keys)

    def push_sparse_param(self, table_id: int, keys: ArrayLike, values: ArrayLike) -> None:
        """Sets the weights of the keys (Table.assign)."""
        self.table(table_id).assign(keys, values)
        self._note_changed(table_id, keys)

    def _note_changed(self, table_id: int, keys: ArrayLike) -> None:
        if self.is_of_sums(table_id):
            self.changes().add(table_id, np.unique(keys_of(keys)))

    def is_of_sums(self, table_id: int) -> bool:
        """Returns whether the table is a table of sums, which adds pushed values to its rows: accessor merge, or
        accessor plain with rule sum."""
        text = next((one.settings for one in self._said.tables if one.number == table_id), "")
        said = _settings(text)
        accessor = said.get("accessor", "plain")
        rule = said.get("rule", "").partition(":")[0].strip()
        return accessor in ("merge", "CommMergeAccessor") or (accessor == "plain" and rule == "sum")

    def changes(self) -> Changes:
        """Returns the lists of the rows that workers have pushed to tables of sums."""
        if self._changes is None:
            self._changes = Changes(self.client, [one.number for one in self._said.tables], self.worker_index(),
                                    self.worker_num())
        return self._changes

    def pull_geo_param(self, table_id: int) -> ChangedRows:
        """Returns the changed rows of a table of sums: those that any worker has changed with push_sparse,
        push_sparse_param or a communicator of mode GEO since this worker's last call (the first call: since the run
        began), with their values now."""
        table = self.table(table_id)
        if not self.is_of_sums(table_id):
            raise UsageError(f"table {table_id}: changed rows are recorded only for tables with 'accessor = merge', or "
                             "'rule = sum' (Paddle: MemorySparseGeoTable)")
        readers = self._readers = self._readers or {}
        if table_id not in readers:
            readers[table_id] = self.changes().reader(table_id, True)
        changed = readers[table_id].read()
        if not changed.complete:
            raise UsageError(f"table {table_id}: the servers record 100,000 to 1,000,000 changed rows of each worker, "
                             "and more were pushed since this worker's last pull_geo_param: call it more often; the "
                             "next call returns the changes from now on; pull_sparse returns rows as they are now")
        return ChangedRows(changed.keys, table.pull(changed.keys))

    # --------------------------------------------- Paddle's other names for methods of FleetWrapper

    def push_dense_param(self, scope: Mapping[str, Any], table_id: int,
                         var_names: Optional[Sequence[str]] = None) -> None:
        """Does the same as push_dense_params."""
        self.push_dense_params(scope, table_id, var_names)

    def pull_dense(self, scope: Scope, table_id: int, var_names: Optional[Sequence[str]] = None) -> None:
        """Does the same as pull_dense_params."""
        self.pull_dense_params(scope, table_id, var_names)

    def load_all_table(self, path: Path, mode: int = 0) -> None:
        """Does the same as load_model."""
        self.load_model(path, mode)

    def save_one_table(self, table_id: int, path: Path, mode: int = 0) -> str:
        """Does the same as save_one_model."""
        return self.save_one_model(table_id, path, mode)

    def save_all_table(self, path: Path, mode: int = 0) -> str:
        """Does the same as save_all_model."""
        return self.save_all_model(path, mode)

    def shrink_table(self, table_id: int, threshold: Optional[float] = None) -> int:
        """Does the same as shrink_sparse_table."""
        return self.shrink_sparse_table(table_id, threshold)
