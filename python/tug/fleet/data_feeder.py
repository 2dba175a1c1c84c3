"""DataFeeder converts examples of a program to arrays for the slots that the program has declared.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from tug._errors import ArgumentTypeError, UsageError
from tug.fleet._names import Named
from tug.fleet._program import Program, Variable, default_main_program


class LoDTensor(NamedTuple):
    """Values of a slot that has any number of values in each example: example i has values[lod[i]:lod[i + 1]]."""

    values: npt.NDArray[Any]
    lod: npt.NDArray[np.uint32]


class DataFeeder(Named):
    """Converts examples to arrays, for exe.run or for a training loop of the program's own (docs/python.md).

    feed_list: slots made by data(), or their names in `program`. feed() takes examples, each with a value or a list of
    values for each slot, and returns {name: array}. A slot with lod_level=0 becomes an array with the slot's shape for
    each example, a slot with lod_level=1 a LoDTensor. Ids are int64, numbers float32."""

    holders = ("DataFeeder",)

    def __init__(self, feed_list: Sequence[Union[Variable, str]], place: Any = None,
                 program: Optional[Program] = None) -> None:
        del place
        where = program or default_main_program()
        self.slots: List[Variable] = [where.var(one) if isinstance(one, str) else one for one in feed_list]
        for one in self.slots:
            if not isinstance(one, Variable):
                raise ArgumentTypeError(f"feed_list: must have slots or their names, not {type(one).__name__}")
        if not self.slots:
            raise UsageError("feed_list: is empty; give at least one slot")

    def feed(self, iterable: Iterable[Sequence[Any]]) -> Dict[str, Union[npt.NDArray[Any], LoDTensor]]:
        """Returns {name of the slot: array or LoDTensor} for these examples."""
        examples = list(iterable)
        for i, one in enumerate(examples):
            if len(one) != len(self.slots):
                raise UsageError(f"example {i} has {len(one)} values, but there are {len(self.slots)} slots: "
                                 f"{', '.join(s.name for s in self.slots)}")
        return {slot.name: self._column(slot, [one[j] for one in examples]) for j, slot in enumerate(self.slots)}

    def _column(self, slot: Variable, values: List[Any]) -> Union[npt.NDArray[Any], LoDTensor]:
        found = [self._values(slot, i, value) for i, value in enumerate(values)]
        flat = np.concatenate(found) if found else np.empty(0, slot.dtype)
        if slot.lod_level == 1:
            return LoDTensor(flat, np.cumsum([0, *map(len, found)], dtype=np.uint32))
        for i, one in enumerate(found):
            if len(one) != slot.width:
                raise UsageError(f"example {i}: slot '{slot.name}' has {len(one)} values, but must have {slot.width}")
        sizes = [n for n in slot.shape if n > 0]  # an unknown dimension is that of the batch
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
            raise ArgumentTypeError(f"example {i}: slot '{slot.name}' has {slot.dtype}, but was given {given.dtype}")
        return ret


def _lists_of(slot: Variable, given: Any) -> List[npt.NDArray[Any]]:
    """Returns the values of a slot for each example."""
    if isinstance(given, LoDTensor):
        return [given.values[a:b] for a, b in zip(given.lod[:-1], given.lod[1:])]
    array = np.asarray(given)
    if array.dtype.kind not in ("iu" if slot.dtype == "int64" else "iufb"):
        raise ArgumentTypeError(f"feed: slot '{slot.name}' has {slot.dtype}, but was given {array.dtype}")
    found = list(array.reshape(len(array) if array.ndim else 1, -1))
    if slot.lod_level == 0 and found and len(found[0]) != slot.width:
        raise UsageError(f"feed: slot '{slot.name}' has {slot.width} values for each example, but was given "
                         f"{len(found[0])}")
    return found


def text_of_feed(slots: Sequence[Variable], feed: Mapping[str, Any]) -> Tuple[str, int]:
    """Returns the examples of `feed` (made by feed(), or a dictionary of arrays by slot name) as lines of MultiSlot
    text, and their number."""
    if not isinstance(feed, Mapping):
        raise ArgumentTypeError(f"feed: must be a dict, {{slot: array}}, not {type(feed).__name__}")
    missing = [slot.name for slot in slots if slot.name not in feed]
    if missing:
        raise UsageError(f"feed: lacks {', '.join(missing)}; the net has {', '.join(slot.name for slot in slots)}")
    columns = [_lists_of(slot, feed[slot.name]) for slot in slots]
    sizes = {len(column) for column in columns}
    if len(sizes) != 1 or sizes == {0}:
        said = ", ".join(f"{slot.name} has {len(column)}" for slot, column in zip(slots, columns))
        raise UsageError(f"feed: all slots must have the same number of examples, at least one; {said}")

    def words(value: npt.NDArray[Any], slot: Variable) -> str:
        if slot.dtype == "int64":
            return " ".join([str(len(value)), *(str(int(one) % 2 ** 64) for one in value)])
        return " ".join([str(len(value)), *(repr(float(np.float32(one))) for one in value)])

    lines = [" ".join(words(value, slot) for value, slot in zip(row, slots)) for row in zip(*columns)]
    return "\n".join(lines) + "\n", len(lines)
