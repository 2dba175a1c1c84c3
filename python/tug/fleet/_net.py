"""A net in Python: the library's models (tug/net.h) on rows of two tables.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tug._abi import ffi
from tug._arrays import Floats, of_floats, word
from tug._library import check, lib, text_of

if TYPE_CHECKING:
    from tug._client import Client
    from tug._table import Table

FEATURES, DENSE = 0, 1  # numbers of the tables
TABLES = {"features": FEATURES, "dense": DENSE}


class Batch(NamedTuple):
    """Examples: features of example i are start[i] to start[i + 1] - 1 of the other arrays."""

    start: npt.NDArray[np.uint32]
    key: npt.NDArray[np.uint64]
    slot: npt.NDArray[np.uint16]
    value: Floats
    label: Floats


class Shape(NamedTuple):
    """What a net is, as tug_net_open takes it; 0 and None: the model's default."""

    model: str
    slots: int
    dim: int = 0
    hidden: Optional[str] = None
    rule: Optional[str] = None
    dense_rule: Optional[str] = None
    init: float = 0.0
    seed: int = 1


class Net:
    """One thread's."""

    def __init__(self, shape: Shape) -> None:
        kept = {name: ffi.new("char[]", word(value, name)) for name in ("model", "hidden", "rule", "dense_rule")
                for value in [getattr(shape, name)] if value is not None}
        o = ffi.new("struct tug_net_options *", {**kept, "slots": shape.slots, "dim": shape.dim, "init": shape.init,
                                                 "seed": shape.seed})
        ret = ffi.new("struct tug_net **")
        check(lib.tug_net_open(ret, o))
        self._c = ffi.gc(ret[0], lib.tug_net_close)
        widths = ffi.new("struct tug_net_widths *")
        lib.tug_net_widths(self._c, widths)
        self.pull_width, self.push_width, self.block = int(widths.pull), int(widths.push), int(widths.block)
        self.dense_floats = int(lib.tug_net_dense(self._c))

    def settings(self) -> Tuple[str, str]:
        """Of the tables of features and of dense parameters."""
        features, dense = (ffi.new("char[]", lib.TUG_NET_SETTINGS_MAX) for _ in range(2))
        lib.tug_net_settings(self._c, features, dense)
        return text_of(features), text_of(dense)

    def first(self) -> Floats:
        """What dense parameters begin with."""
        ret = np.empty(self.dense_floats, np.float32)
        lib.tug_net_first(self._c, of_floats(ret, True))
        return ret

    def _batch(self, b: Batch, row: npt.NDArray[np.uint32], pulled: Floats, dense: Floats) -> Any:
        kept = {"start": ffi.from_buffer("uint32_t[]", b.start), "row": ffi.from_buffer("uint32_t[]", row),
                "slot": ffi.from_buffer("uint16_t[]", b.slot), "value": of_floats(b.value),
                "label": of_floats(b.label), "pulled": of_floats(pulled), "dense": of_floats(dense)}
        made = ffi.new("struct tug_net_batch *", {**kept, "examples": len(b.label), "rows": len(pulled)})
        return made, kept

    def predict(self, b: Batch, row: npt.NDArray[np.uint32], pulled: Floats, dense: Floats) -> Floats:
        """Probabilities."""
        ret = np.empty(len(b.label), np.float32)
        made, kept = self._batch(b, row, pulled, dense)
        check(lib.tug_net_predict(self._c, made, of_floats(ret, True)))
        del kept
        return ret

    def gradients(self, b: Batch, row: npt.NDArray[np.uint32], pulled: Floats,
                  dense: Floats) -> Tuple[Floats, Floats, Floats, float]:
        """What to push of the rows and of the dense parameters, probabilities, and the mean loss."""
        of_rows = np.empty((len(pulled), self.push_width), np.float32)
        of_dense, p = np.empty(self.dense_floats, np.float32), np.empty(len(b.label), np.float32)
        loss = ffi.new("double *")
        made, kept = self._batch(b, row, pulled, dense)
        check(lib.tug_net_gradients(self._c, made, of_floats(of_rows, True), of_floats(of_dense, True),
                                    of_floats(p, True), loss))
        del kept
        return of_rows, of_dense, p, float(loss[0])


class Tables:
    """The rows of a net on the servers, or in this process."""

    def __init__(self, client: "Client", net: Net) -> None:
        features, dense = net.settings()
        self.net = net
        self.features: "Table" = client.table("features", number=FEATURES, settings=features)
        self.dense: "Table" = client.table("dense", number=DENSE, settings=dense)
        self._blocks = np.arange(net.dense_floats // net.block, dtype=np.uint64)

    def by_name(self) -> Dict[str, "Table"]:
        """Both."""
        return {"features": self.features, "dense": self.dense}

    def begin(self) -> None:
        """First values of the dense parameters; one worker says them."""
        self.dense.assign(self._blocks, self.net.first().reshape(len(self._blocks), -1))

    def save(self, directory: str, mode: str, names: Sequence[str] = ("features", "dense")) -> str:
        """Where the servers have written the rows; one worker calls it."""
        tables = [self.by_name()[name] for name in names]
        return self.features.client.save(os.path.abspath(directory), mode=mode, tables=tables)

    def pull(self, b: Batch) -> Tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], Floats, Floats]:
        """A batch's distinct keys, the place of each feature among them, their rows, the dense parameters."""
        keys, place = np.unique(b.key, return_inverse=True)
        dense = self.dense.pull_async(self._blocks)
        rows = self.features.pull(keys)
        return keys, place.astype(np.uint32), rows, np.asarray(dense.wait(), np.float32).reshape(-1)

    def push(self, keys: npt.NDArray[np.uint64], rows: Floats, dense: Floats) -> None:
        """Gradients of both; returns when they are applied."""
        pushed = self.features.push_async(keys, rows)
        self.dense.push(self._blocks, dense.reshape(len(self._blocks), -1))
        pushed.wait()
