"""The kinds of a matrix's columns: numbers or categories, and their fields.

A number in column j is the feature j with that value. A category is a feature, with a
key made of column and category, so that categories need not be counted beforehand and
unknown ones score as unseen.

SPDX-License-Identifier: Apache-2.0
"""

import hashlib
import warnings
from typing import Any, Dict, List, Optional

import numpy as np
import numpy.typing as npt

from tug import _errors
from tug._arrays import Keys, kind_of, listed_in
from tug._errors import ArgumentTypeError, UsageError
from tug._examples import Rows, rows_of

FIELDS_UNASKED = 1000  # a model's size goes by its fields; so many by oversight would take all memory


def _mixed(words: Keys) -> Keys:
    """Steele et al. 2014, splitmix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def _keys_of_numbers(column: int, numbers: npt.NDArray[Any]) -> Keys:
    exact = numbers.astype(np.float64)
    if exact.size > 0 and float(np.abs(exact).max()) > 2 ** 53:
        raise UsageError(f"X: column {column} has categories above 2^53, which would run together as floats: give "
                         "them as texts")
    exact = exact + 0.0  # of -0.0 this makes 0.0
    return _mixed(exact.view(np.uint64) + np.uint64(column + 1) * np.uint64(0x9E3779B97F4A7C15))


def _key_of_text(column: int, text: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{column}:{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest(),
                          "little")


def _keys_of(column: int, values: npt.NDArray[Any]) -> Keys:
    """Keys of a column's categories: numbers by their value, whatever their type, others by their text."""
    if values.dtype.kind in "biuf":
        return _keys_of_numbers(column, values)
    known: Dict[Any, int] = {}
    for value in values.tolist():
        if value not in known:
            known[value] = (int(_keys_of_numbers(column, np.array([value]))[0]) if isinstance(value, (int, float))
                            else _key_of_text(column, str(value)))
    return np.fromiter((known[value] for value in values.tolist()), np.uint64, len(values))


class KnownValues:
    """The keys of categories by column, as far as an estimator has learnt them."""

    FEW, LEAST = 20, 3  # one in so many that is known is few; values that a column has to have to be told of

    def __init__(self) -> None:
        self._keys: Dict[int, Keys] = {}

    def learn(self, columns: Dict[int, Keys]) -> None:
        """Adds those of more examples."""
        for column, keys in columns.items():
            before = self._keys.get(column)
            self._keys[column] = np.unique(keys if before is None else np.concatenate((before, keys)))

    def warn(self, columns: Dict[int, Keys], matrix: Any, names: Optional[List[str]]) -> None:
        """Warns by column where hardly a value is known, as the library does of columns with names."""
        for column, keys in columns.items():
            learnt = self._keys.get(column, np.empty(0, np.uint64))
            at = np.searchsorted(learnt, keys)
            known = np.zeros(len(keys), bool) if len(learnt) == 0 else learnt[np.minimum(at, len(learnt) - 1)] == keys
            if len(keys) < self.LEAST or int(known.sum()) * self.FEW >= len(keys):
                continue
            strange = list(dict.fromkeys(repr(v) for v in matrix[~known, column][:1000].tolist()))[:3]
            name = column if names is None else f"'{names[column]}'"
            warnings.warn(f"X: the model knows {100 * known.mean():.1f} % of the values of column {name}, as "
                          f"{', '.join(strange)}: were they of another type, or written another way, in fit?",
                          _errors.Warning, stacklevel=6)


def _chosen(n: int, categorical: Any, names: Optional[List[str]]) -> npt.NDArray[np.bool_]:
    """Selects the categorical ones of n columns."""
    ret = np.zeros(n, bool)
    if categorical is None:
        return ret
    if isinstance(categorical, str) and categorical == "all":
        return ~ret
    if isinstance(categorical, str):
        raise UsageError(f"categorical: 'all', or a list of columns, not '{categorical}'")
    items = listed_in(categorical)  # an Index of pandas has objects
    listed = np.asarray(categorical if items is None else items)
    if listed.ndim != 1 or listed.dtype.kind not in "biuU" and listed.size > 0:
        raise ArgumentTypeError("categorical: 'all', or a list of columns: their names, their numbers or a mask")
    if listed.dtype.kind == "b":
        if len(listed) != n:
            raise UsageError(f"categorical: is a mask of {len(listed)} columns, and there are {n}")
        return listed
    for column in listed.tolist():
        if isinstance(column, str):
            if names is None or column not in names:
                raise UsageError(f"categorical: X has no column '{column}'" +
                                 ("" if names is not None else ", because it is a matrix without names"))
            column = names.index(column)
        if not 0 <= column < n:
            raise UsageError(f"categorical: there is no column {column}, because X has {n}, from 0 on")
        ret[column] = True
    return ret


def _fields_of(n: int, fields: Any) -> npt.NDArray[np.uint32]:
    if fields is None:
        if n > FIELDS_UNASKED:
            raise UsageError(f"fields: X has {n} columns, and each would be a field of its own: say of which field "
                             "each is, as fields=[0, 0, 1, ...]; or give categories as they are, by categorical=")
        return np.arange(n, dtype=np.uint32)
    given = np.asarray(fields)
    if given.shape != (n,) or given.dtype.kind not in "iu" or int(given.min()) < 0 or int(given.max()) > 65535:
        raise UsageError(f"fields: have to be {n} numbers from 0 to 65535, one for each column of X")
    return given.astype(np.uint32)


class Columns:
    """Returns the columns of n that are in `categorical` (None: none; "all"; names, numbers, or a mask) are
    categories. With
    by_field features have fields: those of `fields`, one for each column, or (None) columns are fields."""

    def __init__(self, n: int, categorical: Any, fields: Any, by_field: bool, names: Optional[List[str]]) -> None:
        self.categorical = _chosen(n, categorical, names)
        self.fields = _fields_of(n, fields) if by_field else None
        self.names = names

    def rows(self, matrix: Any, learn: Optional[KnownValues] = None, known: Optional[KnownValues] = None) -> Rows:
        """Examples of a numpy matrix, or of a sparse one of scipy. `learn` hears of their categories, and by `known`
        columns with others are warned of."""
        if self.categorical.any():
            return self._of_categories(matrix, learn, known)
        if hasattr(matrix, "tocsr") and np.count_nonzero(matrix.data) != len(matrix.data):
            matrix = matrix.tocsr(copy=True)
            matrix.eliminate_zeros()  # as in a dense one
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
            raise UsageError("X: has categories, so it cannot be a sparse matrix, in which there are no zeros")
        values = np.ones(matrix.shape, np.float32)
        keys = np.tile(np.arange(matrix.shape[1], dtype=np.uint64), (len(matrix), 1))
        with np.errstate(over="ignore"):  # infinities are refused by the library, with the place
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
