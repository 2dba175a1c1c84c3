"""Makes features of a matrix's columns, which hold numbers or categories, and gives them fields.

A number in column j becomes feature j with that value. A category becomes a feature of its own, whose key is a hash of
the column and the category: so categories need not be counted beforehand, and the model ignores those it has not seen.

SPDX-License-Identifier: Apache-2.0
"""

import hashlib
from typing import Any, Dict, List, Optional

import numpy as np
import numpy.typing as npt

from tug._arrays import Keys, kind_of, listed_in
from tug._errors import ArgumentTypeError, UsageError, warn_of
from tug._examples import Rows, rows_of

FIELDS_UNASKED = 1000  # columns beyond which `fields` must be given: a model with many fields could take all memory


def _mixed(words: Keys) -> Keys:
    """Mixes the bits of each word (the finalizer of splitmix64, Steele et al. 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def _keys_of_numbers(column: int, numbers: npt.NDArray[Any]) -> Keys:
    exact = numbers.astype(np.float64)
    if exact.size > 0 and float(np.abs(exact).max()) > 2 ** 53:
        raise UsageError(f"X: column {column} has categories above 2^53, which floats cannot tell apart: give them as "
                         "texts")
    exact = exact + 0.0  # turns -0.0 into 0.0
    return _mixed(exact.view(np.uint64) + np.uint64(column + 1) * np.uint64(0x9E3779B97F4A7C15))


def _key_of_text(column: int, text: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{column}:{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest(),
                          "little")


def _keys_of(column: int, values: npt.NDArray[Any]) -> Keys:
    """Returns the keys of a column's categories. A number's key follows from its value, whatever its type; any other
    category's key follows from its text."""
    if values.dtype.kind in "biuf":
        return _keys_of_numbers(column, values)
    known: Dict[Any, int] = {}
    for value in values.tolist():
        if value not in known:
            known[value] = (int(_keys_of_numbers(column, np.array([value]))[0]) if isinstance(value, (int, float))
                            else _key_of_text(column, str(value)))
    return np.fromiter((known[value] for value in values.tolist()), np.uint64, len(values))


class KnownValues:
    """The categories that an estimator has seen in training, as their keys, by column."""

    FEW = 20  # warn() warns of a column in which fewer than 1 value in 20 is known
    LEAST = 3  # warn() ignores columns with fewer values

    def __init__(self) -> None:
        self._keys: Dict[int, Keys] = {}

    def learn(self, columns: Dict[int, Keys]) -> None:
        """Adds the categories of more examples: the keys by column."""
        for column, keys in columns.items():
            before = self._keys.get(column)
            self._keys[column] = np.unique(keys if before is None else np.concatenate((before, keys)))

    def warn(self, columns: Dict[int, Keys], matrix: Any, names: Optional[List[str]]) -> None:
        """Warns of each column in which hardly any value is known, as the library does for columns of a data frame."""
        for column, keys in columns.items():
            learnt = self._keys.get(column, np.empty(0, np.uint64))
            at = np.searchsorted(learnt, keys)
            known = np.zeros(len(keys), bool) if len(learnt) == 0 else learnt[np.minimum(at, len(learnt) - 1)] == keys
            if len(keys) < self.LEAST or int(known.sum()) * self.FEW >= len(keys):
                continue
            strange = list(dict.fromkeys(repr(v) for v in matrix[~known, column][:1000].tolist()))[:3]
            name = column if names is None else f"'{names[column]}'"
            warn_of(f"X: the model knows only {100 * known.mean():.1f} % of the values of column {name}; unknown "
                    f"values are {', '.join(strange)}: did they have another type or spelling in fit?")


def _chosen(n: int, categorical: Any, names: Optional[List[str]]) -> npt.NDArray[np.bool_]:
    """Returns a mask of the n columns: True for those that `categorical` selects."""
    ret = np.zeros(n, bool)
    if categorical is None:
        return ret
    if isinstance(categorical, str) and categorical == "all":
        return ~ret
    if isinstance(categorical, str):
        raise UsageError(f"categorical: must be 'all' or a list of columns, not '{categorical}'")
    items = listed_in(categorical)  # an Index of pandas has objects
    listed = np.asarray(categorical if items is None else items)
    if listed.ndim != 1 or listed.dtype.kind not in "biuU" and listed.size > 0:
        raise ArgumentTypeError("categorical: must be 'all', or a list of columns: their names, numbers or a mask")
    if listed.dtype.kind == "b":
        if len(listed) != n:
            raise UsageError(f"categorical: the mask has {len(listed)} values, but X has {n} columns")
        return listed
    for column in listed.tolist():
        if isinstance(column, str):
            if names is None or column not in names:
                raise UsageError(f"categorical: X has no column '{column}'" +
                                 ("" if names is not None else ", because it is a matrix without names"))
            column = names.index(column)
        if not 0 <= column < n:
            raise UsageError(f"categorical: there is no column {column}: X has {n} columns, numbered from 0")
        ret[column] = True
    return ret


def _fields_of(n: int, fields: Any) -> npt.NDArray[np.uint32]:
    if fields is None:
        if n > FIELDS_UNASKED:
            raise UsageError(f"fields: X has {n} columns, and each would be a field of its own: give the field of each "
                             "column, as fields=[0, 0, 1, ...], or categories as they are, with categorical=")
        return np.arange(n, dtype=np.uint32)
    given = np.asarray(fields)
    if given.shape != (n,) or given.dtype.kind not in "iu" or int(given.min()) < 0 or int(given.max()) > 65535:
        raise UsageError(f"fields: must be {n} numbers from 0 to 65535, one for each column of X")
    return given.astype(np.uint32)


class Columns:
    """The kinds of a matrix's n columns. The columns in `categorical` (None: no column; "all"; names, numbers, or a
    mask) hold categories, the others numbers. With by_field each feature has a field: that of its column in `fields`;
    if `fields` is None, each column is a field of its own."""

    def __init__(self, n: int, categorical: Any, fields: Any, by_field: bool, names: Optional[List[str]]) -> None:
        self.categorical = _chosen(n, categorical, names)
        self.fields = _fields_of(n, fields) if by_field else None
        self.names = names

    def rows(self, matrix: Any, learn: Optional[KnownValues] = None, known: Optional[KnownValues] = None) -> Rows:
        """Returns the examples of a numpy matrix, or of a sparse one of scipy. Adds their categories to `learn`; warns
        of columns whose categories `known` mostly lacks."""
        if self.categorical.any():
            return self._of_categories(matrix, learn, known)
        if hasattr(matrix, "tocsr") and np.count_nonzero(matrix.data) != len(matrix.data):
            matrix = matrix.tocsr(copy=True)
            matrix.eliminate_zeros()  # a zero is not a feature, as in a dense matrix
        rows = rows_of(matrix)
        return rows if self.fields is None else Rows(rows.offsets, rows.keys, rows.values, self.fields[rows.keys])

    def _numbers(self, column: npt.NDArray[Any], j: int) -> npt.NDArray[np.float32]:
        try:
            return column.astype(np.float32)
        except (TypeError, ValueError) as error:
            name = j if self.names is None else f"'{self.names[j]}'"
            first = next((v for v in column.tolist() if not isinstance(v, (bool, int, float))), None)
            raise ValueError(f"X: column {name} has {kind_of(first)}, {str(first)!r}, and is not in categorical: name "
                             "it there, or leave it out") from error

    def _of_categories(self, matrix: Any, learn: Optional[KnownValues], known: Optional[KnownValues]) -> Rows:
        if hasattr(matrix, "tocsr"):
            raise UsageError("X: cannot be a sparse matrix if it has categories, because a sparse matrix leaves out "
                             "zeros")
        values = np.ones(matrix.shape, np.float32)
        keys = np.tile(np.arange(matrix.shape[1], dtype=np.uint64), (len(matrix), 1))
        with np.errstate(over="ignore"):  # the library refuses infinities, and names their row and column
            for j in range(matrix.shape[1]):
                if self.categorical[j]:
                    keys[:, j] = _keys_of(j, matrix[:, j])
                else:
                    values[:, j] = self._numbers(matrix[:, j], j)
        columns = {int(j): keys[:, j] for j in np.flatnonzero(self.categorical)}
        if learn is not None:
            learn.learn(columns)
        if known is not None:
            known.warn(columns, matrix, self.names)
        present = (values != 0) | self.categorical
        offsets = np.zeros(len(matrix) + 1, np.uint64)
        np.cumsum(present.sum(axis=1), out=offsets[1:])
        fields = None if self.fields is None else np.broadcast_to(self.fields, keys.shape)[present]
        return Rows(offsets, keys[present], values[present], fields)
