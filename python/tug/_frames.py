"""Data frames as Arrow's C structs: whatever speaks the Arrow PyCapsule interface, and, without it, the columns of
pandas and dictionaries of arrays.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
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


class _Column:
    """An array with its schema; `kept` lives as long as it is used."""

    def __init__(self, name: str, form: str, n: int, buffers: List[Optional[npt.NDArray[Any]]],
                 children: Optional[List["_Column"]] = None, dictionary: Optional["_Column"] = None) -> None:
        children = children or []
        self.n = n
        text = [ffi.new("char[]", name.encode("utf-8", "surrogateescape")), ffi.new("char[]", form.encode())]
        self.schema = ffi.new("struct ArrowSchema *", {"name": text[0], "format": text[1], "flags": 2,
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


def _of_texts(name: str, values: List[Any]) -> _Column:
    """By calls that go over all values at once: a column has millions."""
    valid = None
    if set(map(type, values)) != {str}:
        valid = _bits(np.array([isinstance(v, str) for v in values], bool))
        for i, value in enumerate(values):
            if not isinstance(value, str) and not _missing(value):
                raise ArgumentTypeError(f"data: column '{name}' has objects, and row {i} is {kind_of(value)}, "
                                        "not a str: convert the column, or leave it out")
        values = [v if isinstance(v, str) else "" for v in values]
    whole = "".join(values)
    words = values if whole.isascii() else [v.encode("utf-8", "surrogateescape") for v in values]
    text = whole.encode() if whole.isascii() else b"".join(words)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, words), np.int64, len(values)), out=offsets[1:])
    return _Column(name, "U", len(values), [valid, offsets, np.frombuffer(text or b"\0", np.uint8)])


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
    return _of_texts(name, values)


def _of_array(name: str, array: npt.NDArray[Any], valid: Optional[npt.NDArray[Any]] = None) -> _Column:
    if array.ndim != 1:
        raise UsageError(f"data: column '{name}' has {array.ndim} dimensions, not one")
    kind, bits = array.dtype.kind, None if valid is None else _bits(valid)
    if kind == "O":
        return _of_objects(name, array)
    if kind == "U":
        return _of_texts(name, array.tolist())
    if kind == "b":
        return _Column(name, "b", len(array), [bits, _bits(array)])
    if kind not in "iuf":  # the library says so, if it is wanted
        return _Column(name, "tsn:", len(array), [None, None])
    size = {2: 4, 16: 8}.get(array.dtype.itemsize, array.dtype.itemsize) if kind == "f" else array.dtype.itemsize
    plain = np.ascontiguousarray(array, np.dtype(f"{kind}{size}"))
    return _Column(name, _FORMATS[f"{kind}{size}"], len(array), [bits, plain])


def _of_series(name: str, series: Any) -> _Column:
    """A column of pandas."""
    if hasattr(series, "cat"):
        codes = np.asarray(series.cat.codes.to_numpy())
        values = _of_array(name, np.asarray(series.cat.categories.to_numpy()))
        plain = np.ascontiguousarray(codes)
        return _Column(name, _FORMATS[f"i{codes.dtype.itemsize}"], len(codes), [_bits(codes >= 0), plain],
                       dictionary=values)
    if isinstance(series.dtype, np.dtype) or getattr(series.dtype, "kind", "O") not in "iufb":
        return _of_array(name, np.asarray(series.to_numpy()))
    missing = np.asarray(series.isna().to_numpy())  # Int64 and its kin
    values_of = np.asarray(series.fillna(False if series.dtype.kind == "b" else 0).to_numpy(series.dtype.numpy_dtype))
    return _of_array(name, values_of, ~missing)


def _name(name: Any) -> str:
    return name if isinstance(name, str) else str(name)


def _columns_of(data: Any) -> List[_Column]:
    if isinstance(data, dict):
        return [_of_array(_name(k), np.asarray(v) if not isinstance(v, (list, tuple)) else _of_list(v))
                for k, v in data.items()]
    return [_of_series(_name(k), data.iloc[:, i]) for i, k in enumerate(data.columns)]


def _of_list(values: Any) -> npt.NDArray[Any]:
    """Numbers stay numbers; all else are objects, which are looked at one by one."""
    if all(isinstance(v, (int, float, np.number, np.bool_)) for v in values):
        return np.array(values)
    ret = np.empty(len(values), object)
    ret[:] = values
    return ret


FAR = 100.0  # from 0, in the mean: what is stepped on by such numbers hardly learns


def far_numbers(data: Any, known: Set[str]) -> List[str]:
    """Columns of pandas and dictionaries, other than those known, with large numbers: mostly these are ids."""
    if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "iloc"):
        return []
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
    """Whether it is a table with named columns."""
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
        raise ArgumentTypeError(f"data: what it exports is no {kind}: {error}") from None


def fill(data: Any, c: Any) -> Tuple[Any, ...]:
    """Fills a `struct tug_columns`; returns what has to live until it was read."""
    if hasattr(data, "__arrow_c_stream__"):
        stream = data.__arrow_c_stream__()
        c.stream = _pointer(stream, "ArrowArrayStream")
        return (stream,)
    if hasattr(data, "__arrow_c_array__"):
        schema, array = data.__arrow_c_array__()
        c.schema, c.array = _pointer(schema, "ArrowSchema"), _pointer(array, "ArrowArray")
        return schema, array
    columns = _columns_of(data)
    lengths: Dict[int, int] = {column.n: i for i, column in reversed(list(enumerate(columns)))}
    if len(lengths) > 1:
        a, b = sorted(lengths.items(), key=lambda item: item[1])[:2]
        raise UsageError(f"data: the columns are ragged: column {a[1]} has {a[0]} rows, and column {b[1]} {b[0]}")
    if not columns:
        raise UsageError("data: there are no columns")
    table = _Column("", "+s", columns[0].n, [None], columns)
    c.schema, c.array = table.schema, table.array
    return (table,)
