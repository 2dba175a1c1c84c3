"""Exchanges values between all workers with the library's tug_fleet_all_gather (tug/fleet.h).

A value is sent as JSON, so that a receiver never executes received bytes; numbers arrive unchanged.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
from typing import TYPE_CHECKING, Any, Dict, List

import numpy as np
import numpy.typing as npt

from tug._abi import ffi
from tug._errors import ArgumentTypeError, DataError, UsageError
from tug._library import OwnedHandle, lib

if TYPE_CHECKING:
    from tug._client import Client
    from tug.fleet.role_maker import RoleMaker

CALL_BYTES = 16  # the field for a call's name in the first message, padded with spaces
SAID_MAX = 1 << 24  # the most bytes of one worker's value
SHOWN_MAX = 1000  # the most characters of another process's value that an error message quotes
NUMBERS = re.compile(r"[<>=|]?[iufb][0-9]{1,2}", re.ASCII)  # accepted types of arrays, as numpy names them
REDUCTIONS: Dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iufb":
            raise ArgumentTypeError(f"input: only arrays of numbers can be exchanged, not of {value.dtype}")
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        return value.item()
    return value


def said_of(value: Any) -> bytes:
    """Returns a value as JSON. Raises ArgumentTypeError if it has no JSON, UsageError if it is too long."""
    try:
        said = json.dumps(_plain(value)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"input: cannot be exchanged: {error}; only numbers, texts, lists and arrays "
                                "can") from error
    if len(said) > SAID_MAX:
        raise UsageError(f"input: has {len(said)} bytes as text, more than {SAID_MAX}")
    return said


def shown(value: Any) -> str:
    """Returns a value of another process for an error message: one line, without control characters, and shortened."""
    text = value if isinstance(value, str) else repr(value)
    cut = text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in cut)


def texts_of(said: Any, who: str) -> List[str]:
    """Returns `said`, a value from the process `who`, if it is a list of texts; else raises DataError."""
    if not isinstance(said, list) or not all(isinstance(one, str) and _is_text(one) for one in said):
        raise DataError(f"the answer of {who} is not a list of names: {shown(said)}")
    return said


def paths_of(said: Any, who: str) -> List[str]:
    """Returns `said`, a value from the process `who`, if it is a list of absolute paths; else raises DataError."""
    paths = texts_of(said, who)
    for one in paths:
        if not os.path.isabs(one) or "\0" in one:
            raise DataError(f"{who} names a file without an absolute path: {shown(one)}")
    return paths


def _is_text(one: str) -> bool:
    try:
        return os.fsencode(one) is not None
    except UnicodeEncodeError:
        return False


def value_of(said: bytes, who: str) -> Any:
    """Returns the value of a JSON text that the process `who` has sent. Raises DataError if it is damaged."""
    try:
        value = json.loads(said)
        if isinstance(value, dict) and set(value) == {"array", "dtype"}:
            if NUMBERS.fullmatch(value["dtype"]) is None:  # numpy evaluates some other type names as code
                raise ValueError(f"an array of {shown(value['dtype'])}")
            return np.asarray(value["array"], np.dtype(value["dtype"]))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise DataError(f"the answer of {who} is not a value: {error}") from error
    return value


def _reduced(said: List[npt.NDArray[Any]], mode: str) -> npt.NDArray[Any]:
    dtype = np.result_type(*said)
    if any(one.dtype.kind == "f" for one in said):
        return np.asarray(REDUCTIONS[mode](np.stack(said), axis=0))
    # Computes with Python's unbounded integers, so that a result beyond the arrays' type raises an error and does not
    # wrap around.
    whole = np.asarray(REDUCTIONS[mode](np.stack([one.astype(object) for one in said]), axis=0), object)
    to = dtype if all(one.dtype == dtype for one in said) and dtype.kind != "b" else np.dtype(np.int64)
    limits = np.iinfo(to)
    for one in whole.ravel():
        if not limits.min <= one <= limits.max:
            raise UsageError(f"input: the {mode} of all workers, {one}, does not fit in {to}")
    return whole.astype(to)


class Exchange(OwnedHandle):
    """A worker's access to the exchange. Only one thread at a time may use it. Close it before the client."""

    def __init__(self, client: "Client", roles: "RoleMaker") -> None:
        self.client = client
        o = ffi.new("struct tug_fleet_options *", {"roles": roles.c, "client": client._opened})
        ret = ffi.new("struct tug_fleet **")
        super().__init__("fleet's exchange", ffi.NULL, lib.tug_fleet_close)
        self._run(lambda _none: lib.tug_fleet_init(ret, o))
        self._c = ret[0]
        self._run(lib.tug_fleet_init_worker)
        self.index = self._status_of(lib.tug_fleet_worker_index)
        self.workers = self._status_of(lib.tug_fleet_worker_num)

    def _all(self, said: bytes) -> List[bytes]:
        n = len(said)
        out = bytearray(self.workers * n)
        self._run(lib.tug_fleet_all_gather, said, n, ffi.from_buffer("char[]", out))
        return [bytes(out[i * n:(i + 1) * n]) for i in range(self.workers)]

    def gather(self, value: Any, call: str = "all_gather") -> List[Any]:
        """Returns the values of all workers, ordered by worker index. All workers call it, with the same name `call`:
        different names raise UsageError."""
        said = said_of(value)
        heads = self._all(len(said).to_bytes(8, "little") + call.encode().ljust(CALL_BYTES))
        calls = sorted({one[8:].decode(errors="replace").strip() for one in heads})
        if len(calls) > 1:
            raise UsageError(f"workers make different calls, {' and '.join(map(shown, calls))}: all must make the same "
                             "calls in the same order")
        sizes = [int.from_bytes(one[:8], "little") for one in heads]
        if max(sizes) > SAID_MAX:
            raise DataError(f"worker {sizes.index(max(sizes))} announces a value of {max(sizes)} bytes, more than "
                            f"{SAID_MAX}")
        found = self._all(said.ljust(max(sizes), b"\0"))
        return [value_of(one[:size], f"worker {i}") for i, (one, size) in enumerate(zip(found, sizes))]

    def reduce(self, value: Any, mode: str) -> Any:
        """Returns the sum, maximum or minimum ("sum", "max", "min") of all workers' numbers, or of their arrays of one
        shape. All workers call it."""
        if mode not in REDUCTIONS:
            raise UsageError(f"mode: '{mode}' is not one of {', '.join(REDUCTIONS)}")
        given = np.asarray(value)
        if given.dtype.kind not in "iufb":
            raise ArgumentTypeError(f"input: must be a number or an array of numbers, not {type(value).__name__}")
        said = [np.asarray(one) for one in self.gather(given, f"all_reduce({mode})")]
        shapes = sorted({one.shape for one in said})
        if len(shapes) > 1:
            raise UsageError(f"input: workers gave arrays of different shapes: {', '.join(map(str, shapes))}")
        if any(one.dtype.kind not in "iufb" for one in said):
            raise UsageError("input: a value of a worker is not a number")
        reduced = _reduced(said, mode)
        return reduced if isinstance(value, np.ndarray) else reduced.item() if reduced.ndim == 0 else reduced.tolist()
