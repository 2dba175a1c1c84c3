"""Arrays of tug.kvstore: converts the caller's arrays for the library, and the library's arrays for updaters.

An array can be a numpy array (with any strides), a torch tensor, a RowSparse, or an object of a class that the program
has registered. A pushed array is not copied if it is contiguous and has a dtype of the library; an array that is pulled
into is written in place. A tensor of another device is copied to the CPU and back. Sparse torch tensors, such as
gradients of an embedding, can be pushed as a RowSparse.

SPDX-License-Identifier: Apache-2.0
"""

import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Type

import numpy as np
import numpy.typing as npt

from tug._abi import ffi
from tug._arrays import Shape
from tug._errors import ArgumentTypeError, UsageError

Array = npt.NDArray[Any]

_DTYPES: Dict[np.dtype[Any], int] = {np.dtype(np.float32): 0, np.dtype(np.float64): 1, np.dtype(np.float16): 2,
                                     np.dtype(np.int32): 4, np.dtype(np.int64): 6}
_OF_NUMBER: Dict[int, np.dtype[Any]] = {number: dtype for dtype, number in _DTYPES.items()}


class RowSparse:
    """An array of this shape in which only the rows `indices` are not zero; data[i] is row indices[i].

    Indices may be given in any order and repeat: rows of the same index are added up, and the attribute `indices` is
    ascending. The dtype is that of data."""

    def __init__(self, indices: Any, data: Any, shape: Sequence[int]) -> None:
        self.shape: Shape = tuple(int(n) for n in shape)
        if not self.shape:
            raise UsageError("a RowSparse needs at least one dimension, but its shape has none")
        rows = _plain(indices, "indices").reshape(-1)
        values = _plain(data, "data")
        if rows.size == 0:
            rows = rows.astype(np.int64)
            values = values.reshape((0,) + self.shape[1:])
        if rows.dtype.kind not in "iu":
            raise ArgumentTypeError(f"indices: must be integers, not {rows.dtype}")
        if values.shape != (rows.size,) + self.shape[1:]:
            raise UsageError(f"data: has the shape {values.shape}, but {rows.size} rows of an array of shape "
                             f"{self.shape} have {(rows.size,) + self.shape[1:]}")
        self.indices: npt.NDArray[np.int64] = rows.astype(np.int64, copy=False)
        self.data: Array = values
        if np.any(self.indices[1:] <= self.indices[:-1]):
            self._sort()
        if rows.size > 0 and not 0 <= self.indices[0] <= self.indices[-1] < self.shape[0]:
            raise UsageError(f"indices: {self.indices[0]} to {self.indices[-1]} are not rows of an array of shape "
                             f"{self.shape}")

    def _sort(self) -> None:
        rows, where = np.unique(self.indices, return_inverse=True)
        data = np.zeros((rows.size,) + self.shape[1:], self.data.dtype)
        np.add.at(data, where.reshape(-1), self.data)
        self.indices, self.data = rows, data

    @classmethod
    def zeros(cls, shape: Sequence[int], dtype: Any = np.float32) -> "RowSparse":
        """Returns a RowSparse in which all rows are zero."""
        return cls(np.empty(0, np.int64), np.empty((0,) + tuple(shape)[1:], dtype), shape)

    @classmethod
    def of(cls, dense: Any) -> "RowSparse":
        """Returns a dense array as a RowSparse, with the rows that are not all zero."""
        array = _plain(dense, "dense")
        rows = np.flatnonzero(array.reshape(array.shape[0], -1).any(axis=1))
        return cls(rows, array[rows], array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self.data.dtype

    def dense(self) -> Array:
        """Returns all rows as a dense numpy array."""
        array = np.zeros(self.shape, self.data.dtype)
        array[self.indices] = self.data
        return array

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, RowSparse):
            return self.dense() + other
        if other.shape != self.shape:
            raise UsageError(f"arrays of the shapes {self.shape} and {other.shape} cannot be added")
        return RowSparse(np.concatenate([self.indices, other.indices]),
                         np.concatenate([self.data, other.data]), self.shape)

    def __iadd__(self, other: Any) -> "RowSparse":
        total = self + other
        if not isinstance(total, RowSparse):
            total = RowSparse.of(total)
        self.indices, self.data = total.indices, total.data.astype(self.data.dtype, copy=False)
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        # In operations with numpy arrays, such as array += RowSparse, a RowSparse acts as a dense array.
        return getattr(ufunc, method)(*[x.dense() if isinstance(x, RowSparse) else x for x in inputs], **options)

    def __mul__(self, factor: Any) -> "RowSparse":
        return RowSparse(self.indices, self.data * factor, self.shape)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"RowSparse({self.indices.size} of {self.shape[0]} rows, shape {self.shape}, {self.dtype})"


class StoredRows(RowSparse):
    """The array of a sparse key that an updater changes: it has all rows, and `data` is the store's own memory."""

    def __init__(self, array: Array) -> None:  # pylint: disable=super-init-not-called
        self.shape = array.shape
        self.indices = np.arange(array.shape[0], dtype=np.int64)
        self.data = array

    def __iadd__(self, other: Any) -> "StoredRows":
        if isinstance(other, RowSparse):
            self.data[other.indices] += other.data
        else:
            self.data += other
        return self

    def __isub__(self, other: Any) -> "StoredRows":
        return self.__iadd__(-1 * other)


class _Class(NamedTuple):
    unwrap: Callable[[Any], Any]
    wrap: Callable[[Any], Any]


_classes: Dict[Type[Any], _Class] = {}


def register_array_type(cls: Type[Any], unwrap: Callable[[Any], Any], wrap: Callable[[Any], Any]) -> None:
    """Lets every store accept objects of a class as arrays. unwrap(object) returns the numpy array or RowSparse with
    the object's own memory, to which results are written. wrap(array) returns an object around a numpy array or
    RowSparse, for updaters."""
    if not isinstance(cls, type) or not callable(unwrap) or not callable(wrap):
        raise ArgumentTypeError("register_array_type takes a class and two functions")
    _classes[cls] = _Class(unwrap, wrap)


def _registered(given: Any) -> Optional[_Class]:
    for cls in type(given).__mro__:
        if cls in _classes:
            return _classes[cls]
    return None


def _is_tensor(given: Any) -> bool:
    torch = sys.modules.get("torch")  # a program with a tensor has imported torch
    return torch is not None and isinstance(given, torch.Tensor)


def is_array(given: Any) -> bool:
    """Returns whether `given` is one array, not a list of arrays."""
    return isinstance(given, (np.ndarray, np.generic, RowSparse)) or _is_tensor(given) or \
        _registered(given) is not None


def _of_tensor(given: Any, name: str) -> Any:
    torch = sys.modules["torch"]
    try:
        if given.layout is torch.sparse_coo and given.sparse_dim() == 1:
            rows = given.detach().cpu().coalesce()
            return RowSparse(rows.indices()[0].numpy(), rows.values().numpy(), rows.shape)
        return given.detach().cpu().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise ArgumentTypeError(f"{name}: a tensor of {given.dtype}, {given.layout}, on {given.device} cannot "
                                "be converted to a numpy array") from error


def _plain(given: Any, name: str) -> Array:
    return np.asarray(_of_tensor(given, name) if _is_tensor(given) else given)


def array_of(given: Any, name: str) -> Any:
    """Returns the numpy array or RowSparse with an array's memory. Raises ArgumentTypeError for other objects."""
    own = _registered(given)
    if own is not None:
        given = own.unwrap(given)
    if _is_tensor(given):
        given = _of_tensor(given, name)
    if isinstance(given, (np.ndarray, np.generic, RowSparse)):
        return given
    raise ArgumentTypeError(f"{name}: must be a numpy array, a torch tensor, a RowSparse or of a class given to "
                            f"register_array_type, not {type(given).__name__}")


def wrapper_of(given: Any) -> Callable[[Any], Any]:
    """Returns a function that wraps arrays for updaters in the class of `given`."""
    own = _registered(given)
    if own is not None:
        return own.wrap
    if _is_tensor(given):
        torch = sys.modules["torch"]
        return lambda array: array if isinstance(array, RowSparse) else torch.from_numpy(array)
    return lambda array: array


def default_wrapper() -> Callable[[Any], Any]:
    """Returns the function that wraps arrays for updaters of servers: that of the registered class if there is exactly
    one, else one that leaves numpy arrays as they are."""
    return next(iter(_classes.values())).wrap if len(_classes) == 1 else lambda array: array


def written_back(wrapped: Any, array: Any, key: str) -> None:
    """Copies an updater's array back to the store's memory, if the array's class does not write to that memory
    itself."""
    own = _registered(wrapped)
    if own is None:
        return
    now = own.unwrap(wrapped)
    memory = array.data if isinstance(array, RowSparse) else array
    if isinstance(now, RowSparse):
        if now is array or now.data is memory:
            return
        now = now.dense()
    if not isinstance(now, np.ndarray) or np.may_share_memory(now, memory):
        return
    if now.shape != memory.shape or not np.can_cast(now.dtype, memory.dtype, "same_kind"):
        raise UsageError(f"{key}: its updater changed an array of shape {memory.shape} and dtype {memory.dtype} to "
                         f"shape {now.shape} and dtype {now.dtype}")
    with np.errstate(over="ignore"):  # values that do not fit become infinite, and the library refuses them
        memory[...] = now


def refuse_returned(returned: Any, wrapped: Any, array: Any, key: str) -> None:
    """Raises UsageError if an updater returns a new array, which would be lost, instead of changing `stored` in
    place."""
    if returned is None or returned is wrapped or returned is array or not is_array(returned):
        return
    memory = array.data if isinstance(array, RowSparse) else array
    given = array_of(returned, key)
    if not np.may_share_memory(given.data if isinstance(given, RowSparse) else np.asarray(given), memory):
        raise UsageError(f"{key}: its updater returned an array, which has no effect: change `stored` in place, as "
                         "with stored += recv or stored[:] = ...")


def _number(dtype: np.dtype[Any], name: str) -> int:
    number = _DTYPES.get(dtype.newbyteorder("="))
    if number is None:
        raise ArgumentTypeError(f"{name}: arrays are of float16, float32, float64, int32 or int64, not {dtype}")
    return number


def _pointer(array: Array, written: bool = False) -> Any:
    if array.size == 0:
        return ffi.NULL
    return ffi.from_buffer("char[]", array, require_writable=written)


class CArray:
    """A struct tug_array, together with the objects to which it points."""

    def __init__(self, shape: Shape, dtype: np.dtype[Any], name: str) -> None:
        self.c = ffi.new("struct tug_array *")
        self.kept: List[Any] = []
        self.shape = shape
        self.c.dtype = _number(dtype, name)
        self.c.rows = shape[0] if shape else 1
        self.c.width = int(np.prod(shape[1:], dtype=np.int64)) if len(shape) > 1 else 1

    def _point(self, array: Array, written: bool = False) -> None:
        pointer = _pointer(array, written)
        self.kept += [array, pointer]
        self.c.data = pointer

    def _rows(self, indices: npt.NDArray[np.int64]) -> None:
        pointer = ffi.NULL if indices.size == 0 else ffi.from_buffer("int64_t[]", indices)
        self.kept += [indices, pointer]
        self.c.sparse, self.c.ids, self.c.n_ids = True, pointer, indices.size


def to_push(given: Any, name: str) -> CArray:
    """Converts an array that is to be pushed into a CArray."""
    array = array_of(given, name)
    if isinstance(array, RowSparse):
        c = CArray(array.shape, array.dtype, name)
        wanted = (np.size(array.indices),) + tuple(array.shape[1:])
        if array.data.shape != wanted:  # checked by the constructor, but attributes may be set later
            raise UsageError(f"{name}: the data of this RowSparse has the shape {array.data.shape}, but its indices "
                             f"and shape need {wanted}")
        c._rows(np.ascontiguousarray(array.indices, np.int64))
        c._point(np.require(array.data, array.dtype.newbyteorder("="), ["C", "A"]))
        return c
    array = np.asarray(array)
    c = CArray(array.shape, array.dtype, name)
    c._point(np.require(array, array.dtype.newbyteorder("="), ["C", "A"]))
    return c


def _to_write(tensor: Any, array: Any, name: str) -> Any:
    """Returns a tensor to which `array` must be copied back, or None if `array` is the tensor's own memory."""
    if isinstance(array, RowSparse):
        raise UsageError(f"{name}: a sparse tensor cannot be the target of a pull: pull into a RowSparse or a "
                         "dense tensor")
    return None if array.size == 0 or array.ctypes.data == tensor.data_ptr() else tensor.detach()


class Out:
    """The target array of a pull. The library writes to its memory or, if the layout does not allow that, to a copy,
    which finish() copies back."""

    def __init__(self, given: Any, name: str) -> None:
        own = _registered(given)
        given = given if own is None else own.unwrap(given)
        self.array = array_of(given, name)
        self.sparse = isinstance(self.array, RowSparse)
        self._by: Optional[Array] = None
        self._tensor = _to_write(given, self.array, name) if _is_tensor(given) else None
        self.c = CArray(self.array.shape, self.array.dtype, name)
        if self.sparse:
            return
        if not isinstance(self.array, np.ndarray) or not self.array.flags.writeable:
            raise UsageError(f"{name}: the target array of the pull is read-only")
        if any(n > 1 and stride == 0 for n, stride in zip(self.array.shape, self.array.strides)):
            raise UsageError(f"{name}: several elements of the target array of the pull share the same memory")
        flags = self.array.flags
        if not (flags.c_contiguous and flags.aligned and self.array.dtype.isnative):
            self._by = np.empty(self.array.shape, self.array.dtype.newbyteorder("="))
        self.c._point(self.array if self._by is None else self._by, written=True)

    def take_rows(self, indices: npt.NDArray[np.int64]) -> None:
        """Prepares a pull of these rows into a RowSparse."""
        self._indices = indices
        self._by = np.empty((indices.size,) + self.array.shape[1:], self.array.dtype.newbyteorder("="))
        self.c._rows(indices)
        self.c._point(self._by, written=True)

    def take_all(self) -> None:
        """Prepares a pull of all rows that are not zero into a RowSparse."""
        self.take_rows(np.empty(self.array.shape[0], np.int64))

    def finish(self) -> None:
        """Copies what the library has written to the caller's array."""
        if self.sparse:
            n = int(self.c.c.n_ids)
            assert self._by is not None
            self.array.indices, self.array.data = self._indices[:n], self._by[:n]
        elif self._by is not None:
            self.array[...] = self._by
        if self._tensor is not None:
            self._tensor.copy_(sys.modules["torch"].from_numpy(self.array))


def of_c(c: Any, shape: Shape, stored: bool) -> Any:
    """Returns a struct tug_array, which the library passes to an updater, as a numpy array or RowSparse of this shape
    around its memory."""
    dtype = _OF_NUMBER[int(c.dtype)]
    sparse, n = bool(c.sparse), int(c.rows)
    ids = np.empty(0, np.int64)
    if sparse and not stored:
        n = int(c.n_ids)
        if n > 0:
            ids = np.frombuffer(ffi.buffer(c.ids, n * 8), np.int64)
    size = n * int(c.width)
    data = np.empty(0, dtype) if size == 0 else np.frombuffer(ffi.buffer(c.data, size * dtype.itemsize), dtype)
    if not sparse:
        return data.reshape(shape)
    rows = data.reshape((n,) + shape[1:])
    return StoredRows(rows) if stored else RowSparse(ids, rows, shape)
