"""DataFeeder: rows of a program's own as arrays, by the slots that the program has declared.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from tug._errors import ArgumentTypeError, UsageError
from tug.fleet._program import Program, Variable, default_main_program


class LoDTensor(NamedTuple):
    """Any number of values for each example: those of example i are values[lod[i]:lod[i + 1]]."""

    values: npt.NDArray[Any]
    lod: npt.NDArray[np.uint32]


class DataFeeder:
    """Makes arrays of examples for a loop of one's own (docs/python.md).

    feed_list: slots made by data(), or their names in `program`. feed() takes examples, each with a value, or a list
    of values, for each slot, and returns {name: array}: of a slot with lod_level=0 an array of the examples' shapes, of
    one with lod_level=1 a LoDTensor. Ids are int64, numbers float32."""

    def __init__(self, feed_list: Sequence[Union[Variable, str]], place: Any = None,
                 program: Optional[Program] = None) -> None:
        del place
        where = program or default_main_program()
        self.slots: List[Variable] = [where.var(one) if isinstance(one, str) else one for one in feed_list]
        for one in self.slots:
            if not isinstance(one, Variable):
                raise ArgumentTypeError(f"feed_list: has slots or their names, not {type(one).__name__}")
        if not self.slots:
            raise UsageError("feed_list: is empty; give at least one slot")

    def feed(self, iterable: Iterable[Sequence[Any]]) -> Dict[str, Union[npt.NDArray[Any], LoDTensor]]:
        """The arrays of these examples."""
        examples = list(iterable)
        for i, one in enumerate(examples):
            if len(one) != len(self.slots):
                raise UsageError(f"example {i} has {len(one)} values, and there are {len(self.slots)} slots: "
                                 f"{', '.join(s.name for s in self.slots)}")
        return {slot.name: self._column(slot, [one[j] for one in examples]) for j, slot in enumerate(self.slots)}

    def _column(self, slot: Variable, values: List[Any]) -> Union[npt.NDArray[Any], LoDTensor]:
        found = [self._values(slot, i, value) for i, value in enumerate(values)]
        flat = np.concatenate(found) if found else np.empty(0, slot.dtype)
        if slot.lod_level == 1:
            return LoDTensor(flat, np.cumsum([0, *map(len, found)], dtype=np.uint32))
        for i, one in enumerate(found):
            if len(one) != slot.width:
                raise UsageError(f"example {i}: slot '{slot.name}' has {len(one)} values, and must have {slot.width}")
        sizes = [n for n in slot.shape if n > 0]  # an unknown one is that of the batch
        shaped: npt.NDArray[Any] = flat.reshape(len(found), *(sizes or [1]))
        return shaped

    def _values(self, slot: Variable, i: int, value: Any) -> npt.NDArray[Any]:
        try:
            given = np.asarray(value).reshape(-1)
            wrong = given.size > 0 and given.dtype.kind not in ("iu" if slot.dtype == "int64" else "iufb")
            ret: npt.NDArray[Any] = given.astype(slot.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentTypeError(f"example {i}: slot '{slot.name}': {error}") from error
        if wrong:
            raise ArgumentTypeError(f"example {i}: slot '{slot.name}' has {slot.dtype}, and was given {given.dtype}")
        return ret
