"""Converts and checks arguments: arrays become contiguous 64-bit keys and 32-bit floats, as the library needs them.

Arrays that fit already are not copied, and other arrays of numbers are converted once. Conversions that would silently
lose information (negative keys, floats as keys, complex values) are refused with an error that names the argument.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import Any, Callable, KeysView, List, Optional, Sequence, Tuple, Type, TypeVar, Union

import numpy as np
import numpy.typing as npt

from tug._abi import ffi
from tug._errors import ArgumentTypeError, OutOfMemory, UsageError

Keys = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float32]
ArrayLike = npt.ArrayLike
Path = Union[str, "os.PathLike[str]"]
Shape = Tuple[int, ...]
Kind = TypeVar("Kind")

_KEY = np.dtype(np.uint64)
_FLOAT = np.dtype(np.float32)
SECONDS_MAX = 1e6
AT_ONCE = 1e-6


def kind_of(value: Any) -> str:
    """Returns the type of a value with its article, for errors: "an int"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _allocated(make: Callable[[], npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    try:
        return make()
    except (MemoryError, ValueError) as error:  # a ValueError means that the array would be too large
        raise OutOfMemory(f"{name}: not enough memory: {str(error)[:1].lower()}{str(error)[1:]}") from error


def listed_in(given: Any) -> Optional[List[Any]]:
    """Returns the items of a list, a tuple, a dictionary's keys, or a one-dimensional array, Series or Index; None for
    any other value."""
    if isinstance(given, (list, tuple, KeysView)):
        return list(given)
    if not isinstance(given, str) and hasattr(given, "tolist") and getattr(given, "ndim", 0) == 1:
        return list(given.tolist())
    return None


def array_of(given: Any, name: str) -> npt.NDArray[Any]:
    """Returns an array, or nested lists, as a numpy array. Raises an error that begins with `name`."""
    if isinstance(given, np.ma.MaskedArray) and np.any(given.mask):
        raise UsageError(f"{name}: has masked values, which are not numbers: fill them, or leave out their rows")
    if isinstance(given, np.ndarray):
        return given
    try:
        array = np.asarray(given)
        # numpy converts a list with integers below and above 2^63 to floats, which changes them.
        if array.dtype.kind == "f" and isinstance(given, (list, tuple)) and array.size > 0 and \
                float(array.max()) >= 2.0 ** 63:
            exact = np.array(given, object)
            if all(isinstance(v, (int, np.integer)) for v in exact.flat) and min(exact.flat) >= 0 and \
                    max(exact.flat) < 2 ** 64:
                return exact.astype(np.uint64)
        return array
    except MemoryError as error:
        raise OutOfMemory(f"{name}: not enough memory to make an array of it") from error
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        if "inhomogeneous" in str(error):
            raise ArgumentTypeError(f"{name}: has rows of different lengths, but all rows must have the same "
                                    "length") from error
        raise ArgumentTypeError(f"{name}: cannot be made an array: {error}") from error


def empty(shape: Shape, name: str) -> Floats:
    """Returns a new float32 array whose values are not set."""
    return _allocated(lambda: np.empty(shape, _FLOAT), name)


def _culprit(array: npt.NDArray[Any]) -> str:
    # Returns the words by which an error names a wrong type: the dtype or, for an array of objects, the first value
    # that is not a key.
    if array.dtype.kind != "O":
        return str(array.dtype)
    wrong = (one for one in array.flat if not isinstance(one, int) or not 0 <= one < 2 ** 64)
    return repr(next(wrong, array.dtype))[:60]


def check_whole(array: npt.NDArray[Any], name: str) -> None:
    """Raises UsageError unless all numbers are whole and exact in the array's dtype: a float32 above 2^24 may be
    another id that was rounded."""
    if array.size == 0:
        return
    if array.dtype.kind == "f":
        bits = min(np.finfo(array.dtype).nmant + 1, 62)
        most = 2.0 ** bits
        wrong = ~((array >= 0) & (array <= most) & (array == np.floor(array)))
        hint = f"ids of type {array.dtype} must be whole numbers from 0 to 2^{bits}: give integers"
    else:
        wrong = array > np.uint64(2 ** 63 - 1) if array.dtype.kind == "u" else np.zeros(array.shape, bool)
        hint = "ids of rows must be from 0 to 2^63 - 1"
    if np.any(wrong):
        at = int(np.argmax(wrong.reshape(-1)))
        raise UsageError(f"{name}: element {at} is {array.reshape(-1)[at]}; {hint}")


def whole_of(given: Any, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the integers of the list `given` without loss. `array` is numpy's array of the list, in which integers
    from 2^63 on, beside smaller ones, have become floats."""
    if isinstance(given, np.ndarray) or array.dtype.kind not in "fO" or array.size == 0:
        return array
    try:
        exact = np.asarray(given, dtype=object)
    except ValueError:
        return array
    if exact.shape != array.shape or not all(
            isinstance(one, (int, np.integer)) and not isinstance(one, bool)
            for one in exact.flat):
        return array
    return exact.astype(np.uint64) if all(0 <= one < 2 ** 64 for one in exact.flat) else exact


def keys_of(given: Any, name: str = "keys") -> Keys:
    """Returns keys of any shape as a contiguous uint64 array of that shape."""
    array = whole_of(given, array_of(given, name))
    if array.dtype != _KEY:
        if array.size == 0 and not isinstance(given, np.ndarray):
            return np.zeros(array.shape, _KEY)  # numpy makes an array of floats of an empty list
        if array.dtype.kind not in "iu":
            raise ArgumentTypeError(f"{name}: keys are integers from 0 to 2^64 - 1, not {_culprit(array)}")
        if array.dtype.kind == "i" and array.size > 0 and int(array.min()) < 0:
            at = int(np.argmax(array.reshape(-1) < 0))
            if name != "keys":
                raise UsageError(f"{name}: element {at} is {array.reshape(-1)[at]}, but must not be negative")
            raise UsageError(f"{name}: a key cannot be negative, but element {at} is {array.reshape(-1)[at]}; "
                             "if these are 64 bits of a hash, give keys.view(numpy.uint64)")
    return _allocated(lambda: np.require(array, _KEY, ["C", "A"]), name)


def floats_of(given: Any, shape: Shape, name: str) -> Floats:
    """Returns values as a contiguous float32 array of this shape. If rows have only one float, the last axis may be
    missing."""
    array = array_of(given, name)
    if array.dtype.kind not in "fiu":
        if array.size > 0 or isinstance(given, np.ndarray):
            raise ArgumentTypeError(f"{name}: values are real numbers, not {array.dtype}")
        array = array.astype(_FLOAT)
    if array.shape != shape and not (shape[-1:] == (1,) and array.shape == shape[:-1]):
        raise UsageError(f"{name}: has the shape {array.shape}, but must have {shape}")
    with np.errstate(over="ignore"):  # the library refuses infinities, and names their position
        return _allocated(lambda: np.require(array, _FLOAT, ["C", "A"]), name)


def out_of(given: Optional[Any], shape: Shape, name: str = "out") -> Floats:
    """Returns the array for the rows: `given`, which must be writable in place, or a new array if it is
    None."""
    if given is None:
        return empty(shape, name)
    if not isinstance(given, np.ndarray):
        raise ArgumentTypeError(f"{name}: must be a numpy array of float32, not {type(given).__name__}")
    if given.dtype != _FLOAT:
        raise ArgumentTypeError(f"{name}: must be an array of float32, not of {given.dtype}")
    if given.shape != shape and not (shape[-1:] == (1,) and given.shape == shape[:-1]):
        raise UsageError(f"{name}: has the shape {given.shape}, but must have {shape}")
    if not (given.flags.c_contiguous and given.flags.aligned):
        raise UsageError(f"{name}: must be contiguous and aligned, because rows are written directly into it")
    if not given.flags.writeable:
        raise UsageError(f"{name}: is read-only")
    return given


def of_keys(array: Keys) -> Any:
    """Returns a C pointer to the array's memory, which keeps the numpy array alive."""
    return ffi.from_buffer("uint64_t[]", array)


def of_floats(array: Floats, written: bool = False) -> Any:
    """Returns a C pointer to the array's memory, which keeps the numpy array alive."""
    return ffi.from_buffer("float[]", array, require_writable=written)


def whole(given: Any, name: str, low: int, high: int) -> int:
    """Returns an argument that must be an integer from low to high."""
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, np.integer)):
        raise ArgumentTypeError(f"{name}: must be an integer, not {type(given).__name__}")
    if not low <= int(given) <= high:
        raise UsageError(f"{name}: {given} is not from {low} to {high}")
    return int(given)


def real(given: Any, name: str, low: float, high: float) -> float:
    """Returns an argument that must be a number from low to high."""
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{name}: must be a number, not {type(given).__name__}")
    if not low <= given <= high:
        raise UsageError(f"{name}: {given} is not from {low:g} to {high:g}")
    return float(given)


def truth(given: Any, name: str) -> bool:
    """Returns an argument that must be True or False."""
    if not isinstance(given, (bool, np.bool_)):
        raise ArgumentTypeError(f"{name}: must be True or False, not {type(given).__name__}")
    return bool(given)


def seconds(given: Any, name: str = "timeout") -> float:
    """Returns an argument that must be a time in seconds."""
    return real(given, name, 0, SECONDS_MAX)


def timeout_of(given: Any) -> float:
    """Returns a timeout in the library's form, in which 0 stands for the longest wait: None becomes 0, and 0 becomes a
    tiny time."""
    return 0.0 if given is None else max(seconds(given), AT_ONCE)


def choice(given: Any, name: str, choices: Sequence[str]) -> str:
    """Returns an argument that must be one of the words `choices`."""
    if not isinstance(given, str):
        raise ArgumentTypeError(f"{name}: must be one of {', '.join(choices)}, not {type(given).__name__}")
    if given not in choices:
        raise UsageError(f"{name}: '{given}' is not one of {', '.join(choices)}")
    return given


def instance(given: Any, kind: Type[Kind], name: str) -> Kind:
    """Returns an argument that must be an object of a class of this package."""
    if not isinstance(given, kind):
        raise ArgumentTypeError(f"{name}: must be a tug.{kind.__name__}, not {type(given).__name__}")
    return given


def instances(given: Any, kind: Type[Kind], name: str) -> List[Kind]:
    """Returns an argument that must be a list of objects of a class of this package."""
    if not isinstance(given, (list, tuple)):
        raise ArgumentTypeError(f"{name}: must be a list of tug.{kind.__name__}, not {type(given).__name__}")
    return [instance(one, kind, f"{name}[{i}]") for i, one in enumerate(given)]


def word(given: Any, name: str) -> bytes:
    """Returns an argument that must be a text or a path, as bytes for the library."""
    if isinstance(given, bytes):
        raw = given
    elif isinstance(given, str):
        raw = given.encode("utf-8")
    elif hasattr(given, "__fspath__"):
        return word(given.__fspath__(), name)
    else:
        raise ArgumentTypeError(f"{name}: must be a text, not {type(given).__name__}")
    if b"\0" in raw:
        raise UsageError(f"{name}: must not have a character 0")
    return raw
