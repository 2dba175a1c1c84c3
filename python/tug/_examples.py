"""Converts examples to the library's `struct tug_data`: files, data frames, numpy matrices, scipy's sparse matrices and
rows of keys.

SPDX-License-Identifier: Apache-2.0
"""

import decimal
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from tug._abi import ffi
from tug._arrays import Floats, Keys, array_of, floats_of, keys_of, kind_of, listed_in, of_floats, of_keys, word
from tug._errors import ArgumentTypeError, UsageError, warn_of
from tug._frames import fill, in_another_order, is_frame, names_of


class Rows:
    """Examples in memory (struct tug_rows): row i has the features from offsets[i] up to, but without, offsets[i + 1].

    offsets: ascending integers, one more than there are rows. keys: an integer for each feature, its index or a 64-bit
    hash. values: a real number for each feature; None: all values are 1. fields: for each feature the number of its
    column, below 65536, for models with fields (as in libffm files); None: features have no fields (as in libsvm
    files). Arrays may have any integer or real type. Contiguous uint64 offsets and keys and float32 values are not
    copied, so later changes of these arrays change the rows. Raises ArgumentTypeError or UsageError for arrays that
    cannot be used."""

    def __init__(self, offsets: npt.ArrayLike, keys: npt.ArrayLike, values: Optional[npt.ArrayLike] = None,
                 fields: Optional[npt.ArrayLike] = None) -> None:
        self.keys: Keys = keys_of(keys)
        self.offsets: Keys = keys_of(offsets, "offsets")
        self._check()
        self.values: Optional[Floats] = None
        if values is not None:
            given = array_of(values, "values")
            self.values = floats_of(given.astype(np.float32) if given.dtype.kind == "b" else given, self.keys.shape,
                                    "values")
        self.fields: Optional[npt.NDArray[np.uint32]] = None
        # the number of columns of the matrix that the rows were made of; 0: they were not made of a matrix
        self._columns = 0
        if fields is not None:
            whole = keys_of(fields, "fields")
            if whole.shape != self.keys.shape or (whole.size > 0 and int(whole.max()) > 65535):
                raise UsageError(f"fields: must be {self.keys.size} numbers below 65536, one for each key")
            self.fields = whole.astype(np.uint32)

    def _check(self) -> None:
        if self.keys.ndim != 1 or self.offsets.ndim != 1 or self.offsets.size < 2:
            raise UsageError("Rows: keys and offsets must have one dimension, with one offset more than rows")
        if int(self.offsets.max()) > self.keys.size:
            raise UsageError(f"Rows: an offset is {int(self.offsets.max())}, but there are {self.keys.size} keys")

    def __len__(self) -> int:
        return int(self.offsets.size - 1)


def _dense(matrix: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns a matrix of floats or doubles, with any strides, which C reads without another copy."""
    array_of(matrix, "data")  # raises for a masked array
    if matrix.ndim != 2:
        raise UsageError(f"data: a matrix has two dimensions, not {matrix.ndim}")
    if matrix.dtype.kind not in "fiub":
        raise ArgumentTypeError(f"data: must be a matrix of numbers, not of {matrix.dtype}")
    if matrix.dtype == np.float32 or matrix.dtype == np.float64:  # in this machine's byte order
        return matrix
    return matrix.astype(np.float64 if matrix.dtype.kind == "f" and matrix.dtype.itemsize > 4 else np.float32)


def _of_matrix(rows: Rows, matrix: Any) -> Rows:
    rows._columns = int(matrix.shape[1])
    return rows


def _of_dense(matrix: npt.NDArray[Any]) -> Rows:
    """Returns the rows of a dense matrix. A feature's key is its column; zeros are left out, as in a sparse matrix."""
    rows, columns = np.nonzero(matrix)
    offsets = np.zeros(matrix.shape[0] + 1, np.uint64)
    np.cumsum(np.bincount(rows, minlength=matrix.shape[0]), out=offsets[1:])
    return _of_matrix(Rows(offsets, columns.astype(np.uint64), matrix[rows, columns].astype(np.float32)), matrix)


def _of_csr(matrix: Any) -> Rows:
    if matrix.shape[0] == 0:
        raise UsageError("data: there are no rows")
    if not matrix.has_canonical_format:  # entries of the same row and column are added up
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return _of_matrix(Rows(matrix.indptr, matrix.indices, matrix.data), matrix)


def is_names(given: Any) -> bool:
    """Returns whether `given` is the name of a column, or a list of names."""
    return isinstance(given, str) or (isinstance(given, (list, tuple)) and len(given) > 0 and
                                      all(isinstance(name, str) for name in given))


def rows_of(data: Any) -> Rows:
    """Returns the Rows of a matrix; returns Rows as they are."""
    if isinstance(data, Rows):
        return data
    if isinstance(data, np.ndarray):
        return _of_dense(_dense(data))
    if hasattr(data, "tocsr"):  # scipy.sparse, of any format
        return _of_csr(data.tocsr())
    raise ArgumentTypeError("data: must be paths, a data frame, a numpy matrix, a sparse matrix of scipy or tug.Rows, "
                            f"not {type(data).__name__}")


def paths_of(data: Any) -> Optional[List[bytes]]:
    """Returns the paths if data is one path or a list of paths; else None."""
    if isinstance(data, (str, bytes)) or hasattr(data, "__fspath__"):
        return [word(data, "data")]
    if isinstance(data, (list, tuple)) and all(isinstance(p, (str, bytes)) or hasattr(p, "__fspath__")
                                                        for p in data):
        return [word(p, "data") for p in data]
    return None


def _refuse_text(name: str, i: int, value: str) -> None:
    raise ArgumentTypeError(f"{name}: row {i} is the text {value!r:.60}, but {name}= must be numbers: convert it with "
                            "astype(float), or make it a column of a data frame")


def _numbers(given: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Returns an array of objects (as nullable pandas columns give them) as doubles. Raises if a value is missing or is
    not a number, and names its row."""
    for i, value in enumerate(given.flat):
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            raise UsageError(f"{name}: row {i} is missing ({value}): leave out such rows")
        if isinstance(value, str):
            _refuse_text(name, i, value)
        if not isinstance(value, (bool, int, float, decimal.Decimal, np.number, np.bool_)):
            raise ArgumentTypeError(f"{name}: row {i} is {value!r:.60}, which is not a number")
    return given.astype(np.float64)


# A float lacks the low 29 bits of a double. They have this value if the double lies in the middle between two floats.
_TIE = np.uint64(0x10000000)


def _as_their_text(given: npt.NDArray[Any], floats: Floats) -> Floats:
    """Corrects floats that were rounded from the doubles `given`, so that each is the float that the double's shortest
    text is read as. They differ for doubles in the middle between two floats: rounding chooses the even float, while
    the text may be nearer to the other float."""
    if given.dtype != np.float64 or given.shape != floats.shape:
        return floats
    ties = np.flatnonzero((np.ascontiguousarray(given).view(np.uint64) & np.uint64(0x1fffffff)) == _TIE)
    for i in ties[np.isfinite(floats[ties])]:
        value = float(given[i])
        beyond = decimal.Decimal(repr(value)).compare(decimal.Decimal(value))
        wide = float(floats[i])
        if beyond != 0 and (wide > value) != (beyond > 0):
            floats[i] = np.nextafter(floats[i], np.float32(np.inf if beyond > 0 else -np.inf))
    return floats


def _column_of(given: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Returns `given`, a number for each row, as an array of one dimension; a matrix of one column is accepted."""
    if given.ndim == 2 and given.shape[1] == 1:
        return given[:, 0]
    if given.ndim == 0:
        raise ArgumentTypeError(f"{name}: must have a number for each row, but is {kind_of(given.item())}")
    if given.ndim != 1:
        raise UsageError(f"{name}: has the shape {given.shape}, but must have one dimension, with a number for each row"
                         + ("; for several labels, use a data frame or a file and name the label columns" if
                            name != "weight" and given.ndim == 2 else ""))
    return given


class Examples:
    """A `struct tug_data`, together with the objects to which it points."""

    def __init__(self, data: Any, label: Optional[npt.ArrayLike], name: str = "label",
                 categorical: Union[None, str, Sequence[str]] = None,
                 weight: Union[None, str, npt.ArrayLike] = None) -> None:
        self.c = ffi.new("struct tug_data *")
        # the number of rows; None for files and data frames, whose rows are not counted yet
        self.n: Optional[int] = None
        self.width: Optional[int] = None  # the number of columns of a dense matrix; None for other data
        self._kept: List[Any] = []
        paths = paths_of(data)
        self.files = paths is not None
        frame = not self.files and is_frame(data)
        self._check(frame, label, name, categorical, weight)
        if paths is not None:
            texts = [self._keep(ffi.new("char[]", p)) for p in paths]
            self.c.paths = self._keep(ffi.new("char *[]", texts))
            self.c.n_paths = len(paths)
        elif frame:
            self.c.columns = self._of_columns(data, label, name, categorical)
            self._weigh(self.c.columns, data, weight)
        elif isinstance(data, np.ndarray):
            matrix = self._keep(_dense(data))
            self.n, self.width = matrix.shape
            self.c.matrix = self._of_matrix(matrix, label, name)
            self.c.matrix.weights = self._labels(weight, self.n, "weight")
        else:
            rows = rows_of(data)
            self.n = len(rows)
            self.c.rows = self._of_rows(rows, label, name)
            self.c.rows.weights = self._labels(weight, self.n, "weight")

    def _check(self, frame: bool, label: Any, name: str, categorical: Any, weight: Any) -> None:
        if label is not None and self.files:
            raise UsageError(f"{name}: data files contain the labels; for csv files the model's option label names "
                             "the column of labels")
        if categorical is not None and not frame:
            raise UsageError("categorical: names columns of a data frame, but the data is not a data frame")
        if weight is not None and self.files:
            raise UsageError("weight: is only for a matrix, Rows or a data frame; for files, name the column of "
                             "weights with the option weight_column when the model is trained")
        if is_names(weight) and not (frame and isinstance(weight, str)):
            raise UsageError("weight: names one column of a data frame; for a matrix or Rows it must be an array of "
                             "numbers")

    def _keep(self, thing: Any) -> Any:
        self._kept.append(thing)
        return thing

    def _of_rows(self, rows: Rows, label: Optional[npt.ArrayLike], name: str) -> Any:
        rows._check()  # the caller's arrays are not copied, and may have changed since
        c = self._keep(ffi.new("struct tug_rows *"))
        c.n = len(rows)
        c.offsets = self._keep(of_keys(rows.offsets))
        c.keys = self._keep(of_keys(rows.keys))
        if rows.values is not None:
            c.values = self._keep(of_floats(rows.values))
        if rows.fields is not None:
            c.fields = self._keep(ffi.from_buffer("uint32_t[]", rows.fields))
        c.labels = self._labels(label, len(rows), name)
        c.columns = rows._columns
        return c

    def _of_columns(self, data: Any, label: Optional[npt.ArrayLike], name: str,
                    categorical: Union[None, str, Sequence[str]]) -> Any:
        c = self._keep(ffi.new("struct tug_columns *"))
        if label is not None:
            self._warn_of_order(data, label, name)
            c.n_labels = len(_column_of(array_of(label, name), name))
            c.labels = self._labels(label, int(c.n_labels), name)
        if categorical is not None:
            words = self._keep(words_of(categorical_names(data, categorical)))
            c.categorical, c.n_categorical = words[0], len(words[1])
        self._keep(fill(data, c))
        return c

    def _warn_of_order(self, data: Any, beside: Any, name: str) -> None:
        if in_another_order(data, beside):
            warn_of(f"{name}: its index has the labels of the data frame's index in another order, but rows are "
                    f"matched by position: give {name}.loc[frame.index] to match them by the index, or "
                    f"{name}.to_numpy() to keep the positions")

    def _weigh(self, c: Any, data: Any, weight: Union[None, str, npt.ArrayLike]) -> None:
        """Sets the examples' weights: an array beside the data frame, or the name of the frame's column that holds
        them."""
        if isinstance(weight, str):
            c.weight = self._keep(ffi.new("char[]", word(weight, "weight")))
        elif weight is not None:
            self._warn_of_order(data, weight, "weight")
            c.n_weights = len(_column_of(array_of(weight, "weight"), "weight"))
            c.weights = self._labels(weight, int(c.n_weights), "weight")

    def _of_matrix(self, matrix: npt.NDArray[Any], label: Optional[npt.ArrayLike], name: str) -> Any:
        c = self._keep(ffi.new("struct tug_matrix *"))
        c.n, c.columns = matrix.shape
        c.values = ffi.cast("void *", matrix.ctypes.data)
        c.doubles = matrix.dtype == np.float64
        c.row_bytes, c.column_bytes = matrix.strides
        c.labels = self._labels(label, len(matrix), name)
        return c

    def _labels(self, label: Optional[npt.ArrayLike], n: int, name: str) -> Any:
        if label is None:
            return ffi.NULL
        labels = _column_of(array_of(label, name), name)
        if labels.dtype.kind == "O":
            labels = _numbers(labels, name)
        if labels.dtype.kind == "U" and labels.size > 0:
            _refuse_text(name, 0, str(labels.flat[0]))
        if labels.dtype.kind == "b":
            labels = labels.astype(np.float32)
        return self._keep(of_floats(_as_their_text(labels, floats_of(labels, (n,), name))))


def categorical_names(data: Any, categorical: Any) -> List[str]:
    """Returns the names of the columns that `categorical` lists. Options for a single column take precedence over
    it."""
    if isinstance(categorical, str) and categorical == "all":
        return names_of(data)
    listed = listed_in(categorical)
    if listed is None:
        raise ArgumentTypeError("categorical: must be 'all' or a list of columns' names, not "
                                f"{type(categorical).__name__} {categorical!r:.60}")
    return [str(x) for x in listed]


def words_of(options: Sequence[str]) -> Tuple[Any, List[Any]]:
    """Returns a C array of the texts, and the objects that keep it alive."""
    texts = [ffi.new("char[]", word(o, "options")) for o in options]
    return ffi.new("char *[]", texts), texts
