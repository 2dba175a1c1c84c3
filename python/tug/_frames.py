"""Passes data frames to the library as Arrow's C structs. Data with the Arrow PyCapsule interface is passed through it;
frames of pandas, dictionaries of arrays and structured arrays are converted column by column.

SPDX-License-Identifier: Apache-2.0
"""

import csv
import ctypes
import datetime
import decimal
import importlib
import io
import numbers
import uuid
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np
import numpy.typing as npt

from tug._abi import ffi
from tug._arrays import kind_of
from tug._errors import ArgumentTypeError, UsageError

_FORMATS = {"i1": "c", "u1": "C", "i2": "s", "u2": "S", "i4": "i", "u4": "I", "i8": "l", "u8": "L", "f4": "f",
            "f8": "g"}


def _release(struct: Any) -> None:
    struct.release = ffi.NULL


_release_schema: Any = ffi.callback("void (*)(struct ArrowSchema *)", _release)
_release_array: Any = ffi.callback("void (*)(struct ArrowArray *)", _release)


def _metadata(of: Dict[str, str]) -> Any:
    """Encodes a dictionary as Arrow metadata: the number of pairs, then each text with its length before it."""
    if not of:
        return ffi.NULL
    texts = [text.encode() for pair in of.items() for text in pair]
    packed = b"".join(np.int32(len(text)).tobytes() + text for text in texts)
    return ffi.new("char[]", np.int32(len(of)).tobytes() + packed)


class _Column:
    """One column as an Arrow array with its schema. `kept` holds what the two C structs point to, so that it lives as
    long as this object."""

    def __init__(self, name: str, form: str, n: int, buffers: List[Optional[npt.NDArray[Any]]],
                 children: Optional[List["_Column"]] = None, dictionary: Optional["_Column"] = None,
                 metadata: Optional[Dict[str, str]] = None) -> None:
        children = children or []
        self.n = n
        text = [ffi.new("char[]", _utf8(name)), ffi.new("char[]", form.encode()),
                _metadata({f"tug.{key}": value for key, value in (metadata or {}).items()})]
        self.schema = ffi.new("struct ArrowSchema *", {"name": text[0], "format": text[1], "flags": 2,
                                                       "metadata": text[2],
                                                       "n_children": len(children), "release": _release_schema})
        self.array = ffi.new("struct ArrowArray *", {"length": n, "null_count": -1, "n_buffers": len(buffers),
                                                     "n_children": len(children), "release": _release_array})
        held = [ffi.NULL if b is None else ffi.cast("void *", b.ctypes.data) for b in buffers]
        self.array.buffers = pointers = ffi.new("void *[]", held or [ffi.NULL])
        schemas = ffi.new("struct ArrowSchema *[]", [c.schema for c in children] or [ffi.NULL])
        arrays = ffi.new("struct ArrowArray *[]", [c.array for c in children] or [ffi.NULL])
        self.schema.children, self.array.children = schemas, arrays
        if dictionary is not None:
            self.schema.dictionary, self.array.dictionary = dictionary.schema, dictionary.array
        self.kept = [text, buffers, pointers, schemas, arrays, children, dictionary]


def _bits(of: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.packbits(of, bitorder="little")


def _missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or \
        (isinstance(value, (float, np.floating)) and value != value)


def _utf8(text: str) -> bytes:
    """Encodes a text as UTF-8. A lone surrogate, which has no UTF-8, becomes the byte that it escapes
    (surrogateescape), or the three bytes of its code point."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


_WRITTEN = (str, numbers.Number, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, uuid.UUID,
            np.generic)  # types for which str() returns the text that a csv writer writes


def _word(name: str, row: int, value: Any) -> str:
    if not isinstance(value, _WRITTEN) or isinstance(value, (bytes, np.void)):
        raise ArgumentTypeError(f"data: column '{name}' has objects, and row {row} is {kind_of(value)}: convert the "
                                "column to text or numbers, or leave it out")
    return str(value)


def _of_texts(name: str, values: List[Any], stated: Optional[str] = None) -> _Column:
    """Makes a column of texts. It uses calls that handle all values at once, because a column can have millions."""
    valid = None
    if set(map(type, values)) != {str}:
        valid = _bits(np.array([not _missing(v) for v in values], bool))
        values = [v if type(v) is str else "" if _missing(v) else _word(name, i, v)
                  for i, v in enumerate(values)]
    whole = "".join(values)
    words = values if whole.isascii() else [_utf8(v) for v in values]
    text = whole.encode() if whole.isascii() else b"".join(words)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, words), np.int64, len(values)), out=offsets[1:])
    return _Column(name, "U", len(values), [valid, offsets, np.frombuffer(text or b"\0", np.uint8)],
                   metadata=None if stated is None else {"type": stated})


def _of_lists(name: str, values: List[Any]) -> _Column:
    present = np.array([not _missing(v) for v in values], bool)
    flat: List[Any] = []
    offsets = np.zeros(len(values) + 1, np.int64)
    for i, value in enumerate(values):
        if present[i] and not isinstance(value, (list, tuple, np.ndarray)):
            raise ArgumentTypeError(f"data: column '{name}' has lists, and row {i} is {kind_of(value)}: ragged "
                                    "columns cannot be read")
        flat.extend(value if present[i] else ())
        offsets[i + 1] = len(flat)
    items = np.empty(len(flat), object)
    items[:] = flat
    if flat and all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in flat):
        items = np.array(flat)
    return _Column(name, "+L", len(values), [_bits(present), offsets], [_of_array("item", items)])


def _of_objects(name: str, array: npt.NDArray[Any]) -> _Column:
    values = array.tolist()
    first = next((v for v in values if not _missing(v)), None)
    if isinstance(first, (list, tuple, np.ndarray)):
        return _of_lists(name, values)
    if first is not None and all(_missing(v) or isinstance(v, (bool, np.bool_)) for v in values):
        return _Column(name, "b", len(values), [_bits(np.array([not _missing(v) for v in values], bool)),
                                                _bits(np.array([v is True or v is np.True_ for v in values], bool))])
    kinds = {type(v) for v in values if not _missing(v)}
    if kinds and all(issubclass(k, (numbers.Real, decimal.Decimal, np.bool_)) for k in kinds):
        return _of_texts(name, values, "number")
    return _of_texts(name, values, "date" if kinds == {datetime.date} else None)


def _of_times(name: str, array: npt.NDArray[Any]) -> _Column:
    """Makes a column of times, as pandas writes them: as dates if each time is midnight, else with as many digits of
    the second as the values need."""
    valid = ~np.isnat(array)
    there: Any = array[valid]
    unit: Any
    if np.array_equal(there, there.astype("datetime64[D]")):
        unit, kind = "D", "date"
    else:
        unit, kind = next((u, k) for u, k in (("s", "time"), ("ms", "time3"), ("us", "time6"), ("ns", "time9"))
                          if u == "ns" or np.array_equal(there, there.astype(f"datetime64[{u}]")))
    texts = np.full(len(array), None, object)
    texts[valid] = [t.replace("T", " ") for t in np.datetime_as_string(there, unit=unit)]
    return _of_texts(name, texts.tolist(), kind)


def _of_array(name: str, array: npt.NDArray[Any], valid: Optional[npt.NDArray[Any]] = None) -> _Column:
    if array.ndim == 0:
        raise UsageError(f"data: column '{name}' is {kind_of(array.item())}, and not one value for each row")
    if array.ndim != 1:
        raise UsageError(f"data: column '{name}' has {array.ndim} dimension{'' if array.ndim == 1 else 's'}, not one")
    if isinstance(array, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(array)  # type: ignore[no-untyped-call]
        array, valid = array.data, present if valid is None else present & valid
    kind, bits = array.dtype.kind, None if valid is None else _bits(valid)
    if kind in "OUM" and valid is not None:
        array = array.astype("O" if kind != "M" else array.dtype, copy=True)
        array[~valid] = np.datetime64("NaT") if kind == "M" else None
    if kind in "OU":
        return _of_objects(name, array) if array.dtype.kind == "O" else _of_texts(name, array.tolist())
    if kind == "b":
        return _Column(name, "b", len(array), [bits, _bits(array)])
    if kind == "M":
        return _of_times(name, array)
    if kind not in "iuf":
        return _of_others(name, array)
    if array.dtype.itemsize == 2 and kind == "f":  # as a double, the shortest text of a half float is another number
        array = array.astype(str).astype(np.float64)
    size = {16: 8}.get(array.dtype.itemsize, array.dtype.itemsize) if kind == "f" else array.dtype.itemsize
    plain = np.ascontiguousarray(array, np.dtype(f"{kind}{size}"))
    return _Column(name, _FORMATS[f"{kind}{size}"], len(array), [bits, plain])


class _Refused(_Column):
    """A column of a type that cannot be read. Its format is the type's name, with which the library refuses the column
    if the model uses it."""

    def __init__(self, name: str, n: int, form: str) -> None:
        super().__init__(name, form, n, [None, None])


def _of_others(name: str, array: npt.NDArray[Any]) -> _Column:
    names = {"m": "timedelta64", "c": "complex", "S": "bytes", "V": "void"}
    return _Refused(name, len(array), f"numpy's {names.get(array.dtype.kind, str(array.dtype))}")


def _written_texts(series: Any) -> List[str]:
    """Returns the text that pandas' csv writer writes for each value."""
    file = io.StringIO()
    series.to_csv(file, index=False, header=False)
    file.seek(0)
    return [row[0] if row else "" for row in csv.reader(file)]


def _coded(name: str, codes: Any, values: _Column) -> _Column:
    plain = np.ascontiguousarray(codes)
    return _Column(name, _FORMATS[f"i{plain.dtype.itemsize}"], len(plain), [_bits(plain >= 0), plain],
                   dictionary=values)


def _only_written(dtype: Any) -> bool:
    """Returns whether only pandas' own csv writer can write values of this type: timedeltas, complex numbers, times
    with a zone, periods and intervals."""
    return getattr(dtype, "kind", "O") in "mc" or hasattr(dtype, "tz") or \
        type(dtype).__name__ in ("PeriodDtype", "IntervalDtype")


def _of_categories(name: str, series: Any) -> _Column:
    """Makes a column with a dictionary, in which each category is written once, as pandas writes it."""
    categories = series.cat.categories
    if not _only_written(categories.dtype):
        return _coded(name, series.cat.codes.to_numpy(), _of_series(name, categories.to_series()))
    each = type(series)(type(series.values).from_codes(np.arange(len(categories)), dtype=series.dtype))
    return _coded(name, series.cat.codes.to_numpy(), _of_texts(name, _written_texts(each)))


def _of_series(name: str, series: Any) -> _Column:
    """Makes a column of a pandas Series."""
    if hasattr(series, "cat"):
        return _of_categories(name, series)
    if hasattr(series, "sparse"):
        return _of_series(name, series.sparse.to_dense())
    if _only_written(series.dtype):
        codes, uniques = series.factorize()
        return _coded(name, codes, _of_texts(name, _written_texts(type(series)(uniques))))
    if isinstance(series.dtype, np.dtype) or getattr(series.dtype, "kind", "O") not in "iufb":
        return _of_array(name, np.asarray(series.to_numpy()))
    missing = np.asarray(series.isna().to_numpy())  # nullable types, such as Int64
    values_of = np.asarray(series.fillna(False if series.dtype.kind == "b" else 0).to_numpy(series.dtype.numpy_dtype))
    return _of_array(name, values_of, ~missing)


def _series_of(values: Any) -> Any:
    """Returns pandas' own types (a Series, an Index, an array such as Categorical) as a Series; else None."""
    if hasattr(values, "factorize") and hasattr(values, "dtype") and not isinstance(values, np.ndarray):
        return values if hasattr(values, "iloc") else importlib.import_module("pandas").Series(values)
    return None


def _of_values(name: str, values: Any) -> _Column:
    """Makes a column of a dictionary's value; it becomes what pandas.DataFrame(data) would make of it."""
    series = _series_of(values)
    if series is not None:
        return _of_series(name, series)
    if isinstance(values, (list, tuple)):
        return _of_array(name, _of_list(values))
    return _of_array(name, values if isinstance(values, np.ma.MaskedArray) else np.asarray(values))


def _index_of(values: Any) -> Any:
    """Returns the index of a pandas Series or frame, or None for other data."""
    return getattr(values, "index", None) if hasattr(values, "iloc") else None


def in_another_order(one: Any, other: Any) -> bool:
    """Returns whether two pandas objects have indexes with the same labels in different orders."""
    a, b = _index_of(one), _index_of(other)
    if a is None or b is None or len(a) != len(b) or a.equals(b):
        return False
    try:
        return bool(a.sort_values().equals(b.sort_values()))
    except TypeError:  # the labels cannot be compared
        return False


def _check_indexes(data: Dict[Any, Any]) -> None:
    """Raises UsageError for Series with the same index in different orders, because tug matches rows by position, while
    pandas matches them by the index."""
    series = [(k, v) for k, v in data.items() if _index_of(v) is not None]
    for k, v in series[1:]:
        if in_another_order(series[0][1], v):
            raise UsageError(f"data: the columns '{_name(series[0][0])}' and '{_name(k)}' have the same index in "
                             "different orders: use pandas.DataFrame(data) to match rows by the index, or to_numpy() "
                             "to keep their positions")


def _name(name: Any) -> str:
    return name if isinstance(name, str) else str(name)


def _columns_of(data: Any) -> List[_Column]:
    if isinstance(data, dict):
        _check_indexes(data)
        return [_of_values(_name(k), v) for k, v in data.items()]
    return [_of_series(_name(k), data.iloc[:, i]) for i, k in enumerate(data.columns)]


def _of_list(values: Any) -> npt.NDArray[Any]:
    """Returns a list as an array. A list of one numeric type keeps the type (integers up to 2^64 - 1). Any other list
    becomes an array of objects, and each value is examined."""
    kinds = {type(v) for v in values}
    if kinds and all(issubclass(k, (int, np.integer)) and k is not bool for k in kinds):
        low, high = int(min(values)), int(max(values))
        if -2 ** 63 <= low and high < 2 ** 63:
            return np.array(values, np.int64)
        if low >= 0 and high < 2 ** 64:
            return np.array([int(v) for v in values], np.uint64)
    elif kinds and (all(issubclass(k, (float, np.floating)) for k in kinds) or kinds <= {bool, np.bool_}):
        return np.array(values)
    ret = np.empty(len(values), object)
    ret[:] = values
    return ret


def _of_records(data: Any) -> Any:
    """Returns a structured array, a dictionary of single values or a list of dictionaries as a dictionary of columns;
    other data as it is."""
    if isinstance(data, np.ndarray):
        if data.ndim != 1:
            raise UsageError(f"data: a structured array has one dimension, not {data.ndim}")
        return {name: data[name] for name in data.dtype.names or ()}
    if isinstance(data, (list, tuple)):
        names = list(dict.fromkeys(name for record in data for name in record))
        return {name: [record.get(name) for record in data] for name in names}
    if isinstance(data, dict) and data and all(isinstance(v, _WRITTEN) or _missing(v) for v in data.values()):
        return {name: [value] for name, value in data.items()}
    return data


FAR = 100.0  # the mean absolute value from which a column counts as large: a model hardly learns from such numbers


def far_numbers(data: Any, known: Set[str]) -> List[str]:
    """Returns the names of the columns with large numbers (mean above FAR), which mostly are ids. Columns in `known`
    and Arrow data are left out."""
    if not hasattr(data, "iloc") and (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
        return []
    data = _of_records(data) if not hasattr(data, "iloc") else data
    columns = data.items() if isinstance(data, dict) else ((k, data.iloc[:, i]) for i, k in enumerate(data.columns))
    found = []
    for name, column in columns:
        values = column if isinstance(column, np.ndarray) else getattr(column, "values", None)
        if _name(name) in known or not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
            continue
        finite = np.abs(values[np.isfinite(values)], dtype=np.float64, casting="unsafe")
        if finite.size > 0 and float(finite.mean()) > FAR:
            found.append(_name(name))
    return found


def is_frame(data: Any) -> bool:
    """Returns whether data is a table with named columns."""
    if hasattr(data, "tocsr"):  # a sparse matrix of scipy; its class dok_matrix is also a dict
        return False
    if isinstance(data, np.ndarray):
        return data.dtype.names is not None
    if isinstance(data, (list, tuple)):
        return len(data) > 0 and all(isinstance(record, dict) for record in data)
    arrow = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    return arrow or isinstance(data, dict) or (hasattr(data, "iloc") and hasattr(data, "columns"))


def _pointer(capsule: Any, kind: str) -> Any:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    names = {"ArrowArrayStream": b"arrow_array_stream", "ArrowSchema": b"arrow_schema", "ArrowArray": b"arrow_array"}
    try:
        return ffi.cast(f"struct {kind} *", get(capsule, names[kind]))
    except (ValueError, ctypes.ArgumentError) as error:
        raise ArgumentTypeError(f"data: its Arrow export is not a valid {kind}: {error}") from None


def length(data: Any) -> int:
    """Returns the number of rows of a frame."""
    if hasattr(data, "iloc") or isinstance(data, np.ndarray):
        return len(data)
    if isinstance(data, (dict, list, tuple)):
        columns = _of_records(data)
        return max((len(v) for v in columns.values()), default=0)
    if not hasattr(data, "__len__"):
        raise ArgumentTypeError("data: a stream has no length; read all of it into a table")
    return len(data)


def names_of(data: Any) -> List[str]:
    """Returns the names of a frame's columns. Raises UsageError for Arrow data without names."""
    if isinstance(data, (dict, list, tuple, np.ndarray)):
        return [_name(k) for k in _of_records(data)]
    # column_names is pyarrow's attribute, columns that of pandas and polars
    found = getattr(data, "column_names", getattr(data, "columns", None))
    if found is None:
        raise UsageError("categorical: 'all' needs data whose columns have names: list the columns")
    return [_name(k) for k in found]


def fill(data: Any, c: Any) -> Tuple[Any, ...]:
    """Fills a `struct tug_columns`. Returns the objects that the caller keeps until the library has read the struct."""
    pandas = hasattr(data, "iloc") and hasattr(data, "columns")  # pandas is converted here: its export needs pyarrow
    data = data if pandas or hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__") else \
        _of_records(data)
    if not pandas and hasattr(data, "__arrow_c_stream__"):
        stream = data.__arrow_c_stream__()
        c.stream = _pointer(stream, "ArrowArrayStream")
        return (stream,)
    if not pandas and hasattr(data, "__arrow_c_array__"):
        schema, array = data.__arrow_c_array__()
        c.schema, c.array = _pointer(schema, "ArrowSchema"), _pointer(array, "ArrowArray")
        return schema, array
    columns = _columns_of(data)
    lengths: Dict[int, int] = {column.n: i for i, column in reversed(list(enumerate(columns)))}
    if len(lengths) > 1:
        a, b = sorted(lengths.items(), key=lambda item: item[1])[:2]
        raise UsageError(f"data: the columns are ragged: column {a[1]} has {a[0]} rows, but column {b[1]} has {b[0]}")
    if not columns:
        raise UsageError("data: there are no columns")
    table = _Column("", "+s", columns[0].n, [None], columns, metadata={"python": "1"})
    c.schema, c.array = table.schema, table.array
    return (table,)
