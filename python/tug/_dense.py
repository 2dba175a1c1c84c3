"""Dense variables: arrays of floats that are stored in a table, which spreads them over the servers.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from tug._abi import ffi
from tug._arrays import Floats, Shape, choice, empty, floats_of, of_floats, out_of, whole, word
from tug._errors import ArgumentTypeError, UsageError
from tug._library import lib

if TYPE_CHECKING:
    from tug._table import Table

Values = Union[Mapping[str, Any], Floats]
FLOATS_MAX = 2 ** 40


def _variable_of(name: str, given: Any) -> Tuple[Shape, str]:
    """Returns the shape of a variable and the text of its initial values. given: a shape or (shape, init)."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"variables: a name must be a text, not {type(name).__name__}")
    init = "constant:0"
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str):
        given, init = given
    if isinstance(given, (int, np.integer)):
        given = (given,)
    if not isinstance(given, (tuple, list)):
        raise ArgumentTypeError(f"variables: '{name}' must have a shape, or (shape, init), not "
                                f"{type(given).__name__}")
    return tuple(whole(n, f"variables: a dimension of '{name}'", 1, FLOATS_MAX) for n in given), init


class Variables:
    """Named arrays, one after the other in the floats of a table; `c` has a struct tug_variable for each."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        if not isinstance(variables, Mapping):
            raise ArgumentTypeError("variables: must be a dictionary, {name: shape} or {name: (shape, init)}, not "
                                    f"{type(variables).__name__}")
        self.shapes: Dict[str, Shape] = {}
        self.at: Dict[str, Tuple[int, int]] = {}
        self.size = 0  # the number of floats of all variables
        self.c = ffi.new("struct tug_variable[]", max(len(variables), 1))
        self._kept: List[Any] = []
        for c, (name, given) in zip(self.c, variables.items()):
            shape, init = _variable_of(name, given)
            c.n = int(np.prod(shape, dtype=np.int64))
            c.name, c.init = self._text(name, "variables"), self._text(init, f"init of '{name}'")
            self.shapes[name], self.at[name] = shape, (self.size, self.size + c.n)
            self.size += c.n

    def _text(self, given: str, name: str) -> Any:
        self._kept.append(ffi.new("char[]", word(given, name)))
        return self._kept[-1]

    def views(self, flat: Floats) -> Dict[str, Floats]:
        """Returns the variables as views of `flat`, an array with the floats of all variables."""
        return {name: flat[a:b].reshape(self.shapes[name]) for name, (a, b) in self.at.items()}

    def flat(self, values: Mapping[str, Any], name: str) -> Floats:
        """Returns a new array with the floats of all variables."""
        flat = empty((self.size,), name)
        for variable, part in self.views(flat).items():
            part[...] = floats_of(values[variable], part.shape, f"{name}['{variable}']").reshape(part.shape)
        return flat


class Dense:
    """Arrays that are stored in a table of accessor plain; Table.dense makes the object. All workers give the same
    variables in the same order. If the table is new, the worker of rank 0 sets the initial values, and the other
    workers wait for it.

    Initial values: "constant:0.1", "uniform:-1,1", "gaussian:0,0.01", "truncated-gaussian:0,0.01" or
    "xavier:FAN_IN,FAN_OUT"; without any, 0. Arrays are float32; other arrays of numbers are converted. The attribute
    `shapes` has the shapes by name, `size` is the number of floats of all variables. Several threads may use the
    object; their calls run one at a time. Errors are those of Table."""

    def __init__(self, table: "Table", variables: Mapping[str, Any]) -> None:
        self._variables = known = Variables(variables)
        if not known.shapes:
            raise UsageError("variables: is empty; give at least one")
        self.table = table
        self.shapes, self.size = known.shapes, known.size
        self._lock = threading.Lock()
        ret = ffi.new("struct tug_dense **")
        try:
            table.client._run(lambda c: lib.tug_dense_open(ret, c, table.number, known.c, len(known.shapes)))
        finally:
            self._c = ffi.gc(ret[0], lib.tug_dense_close) if ret[0] != ffi.NULL else None

    def _run(self, function: Any, *args: Any) -> None:
        self.table._check()
        with self._lock:
            self.table.client._run(lambda _client: function(self._c, *args))

    def views(self, flat: Floats) -> Dict[str, Floats]:
        """Returns the variables as views of `flat`, an array with the floats of all variables."""
        if not isinstance(flat, np.ndarray):
            raise ArgumentTypeError(f"flat: must be a numpy array of {self.size} floats, not {type(flat).__name__}")
        if flat.shape != (self.size,):
            raise UsageError(f"flat: has the shape {flat.shape}, but must have ({self.size},)")
        return self._variables.views(flat)

    def flat(self, values: Values, name: str = "values") -> Floats:
        """Returns the values of all variables, {name: array} or one flat array, as one flat array."""
        if not isinstance(values, Mapping):
            return floats_of(values, (self.size,), name)
        missing = sorted(self.shapes.keys() - values.keys())
        unknown = sorted(str(key) for key in values.keys() - self.shapes.keys())
        if missing or unknown:
            raise UsageError(f"{name}: " + "; ".join(
                ([f"lacks {', '.join(missing)}"] if missing else []) +
                ([f"there is no variable {', '.join(unknown)}"] if unknown else [])))
        return self._variables.flat(values, name)

    def pull(self, out: Optional[Floats] = None) -> Dict[str, Floats]:
        """Pulls all variables and returns views of one flat array, which is `out` if given."""
        flat = out_of(out, (self.size,))
        self._run(lib.tug_dense_pull, of_floats(flat, True))
        return self.views(flat)

    def push(self, gradients: Values) -> None:
        """Pushes gradients of all variables, {name: array} or one flat array, and waits until they are applied."""
        self._run(lib.tug_dense_push, of_floats(self.flat(gradients, "gradients")))

    def assign(self, values: Values) -> None:
        """Sets all variables, {name: array} or one flat array."""
        self._run(lib.tug_dense_assign, of_floats(self.flat(values)))

    def _place(self, variable: str) -> int:
        return list(self.shapes).index(choice(variable, "variable", tuple(self.shapes)))

    def start_batch(self) -> None:
        """Begins a batch whose gradients update() sends one variable at a time, while the program computes the next
        ones. Make no other request with this object before finish_batch. (It is startBatch of Paddle's first
        version.)"""
        self._run(lib.tug_dense_start_batch)

    def update(self, variable: str, gradient: Any) -> None:
        """Sends the gradient of a variable and returns at once; the array is copied. Call it once for each variable in
        a batch."""
        place = self._place(variable)
        values = floats_of(gradient, self.shapes[variable], f"gradient of '{variable}'")
        self._run(lib.tug_dense_update, place, of_floats(values))

    def finish_batch(self, out: Optional[Floats] = None) -> Dict[str, Floats]:
        """Waits until all gradients of the batch are applied, and returns the variables as pull() does."""
        flat = out_of(out, (self.size,))
        self._run(lib.tug_dense_finish_batch, of_floats(flat, True))
        return self.views(flat)

    def pull_range(self, variable: str, begin: int, n: int) -> Floats:
        """Returns n floats of one variable, from index `begin` on, as a new array of shape (n,)."""
        rows = empty((whole(n, "n", 0, FLOATS_MAX),), "n")
        self._run(lib.tug_dense_pull_range, self._place(variable), whole(begin, "begin", 0, FLOATS_MAX), n,
                  of_floats(rows, True))
        return rows


# Paddle's names of the operations, in the order of enum tug_vector_op.
OPERATIONS = ("utu", "utv", "au", "au_bv", "au_bv_cw", "aAx_bu", "RESET", "COPY", "RANDOMIZE", "make_steepest_desc_dir",
              "fix_dir_signs", "dir_deriv", "fix_omega_signs")


def operate(operation: str, vectors: Sequence[Dense], *numbers: float) -> float:
    """Computes an operation of Paddle's first version (doOperation) on vectors: Dense objects of different tables with
    the same shapes. operate("au_bv", [u, v], a, b) computes v = a u + b v, and operate("utv", [u, v]) returns the inner
    product. tug/table.h describes all operations. One worker calls it while no other worker pushes. Returns the sum
    that utu, utv and dir_deriv compute, and 0 for other operations."""
    op = OPERATIONS.index(choice(operation, "operation", OPERATIONS))
    for u in vectors:
        if not isinstance(u, Dense):
            raise ArgumentTypeError(f"vectors: must be tug.Dense, not {type(u).__name__}")
        u.table._check()
    if not vectors:
        raise UsageError("vectors: is empty; give at least one")
    given = ffi.new("struct tug_dense *[]", [u._c for u in vectors])
    scalars, ret = ffi.new("double[]", [float(x) for x in numbers] or 1), ffi.new("double *")
    with contextlib.ExitStack() as held:
        for u in sorted(set(vectors), key=id):  # locks are taken in the same order in every thread, to avoid a deadlock
            held.enter_context(u._lock)
        vectors[0].table.client._run(
            lambda _client: lib.tug_dense_operate(op, given, len(vectors), scalars, len(numbers), ret))
    return float(ret[0])
