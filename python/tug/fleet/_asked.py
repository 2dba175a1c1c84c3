"""Finds saves that workers have asked for and that were never written. Only worker 0 saves: a script lets all workers
make the call, or worker 0 alone. A save that only other workers ask for is not written. To detect this, each worker
records its calls, and writes the record into the table of notes when it leaves; the worker that leaves later compares
the records.

SPDX-License-Identifier: Apache-2.0
"""

from typing import TYPE_CHECKING, Any, List

from tug._errors import DataError, UsageError, warn_of
from tug.fleet._gate import leave_note, notes_left

if TYPE_CHECKING:
    from tug._client import Client

ADVICE = "the first worker saves: it makes the call alone (fleet.is_first_worker()), or all workers make it"


def _texts(said: Any, worker: int) -> List[str]:
    if not isinstance(said, list) or not all(isinstance(one, str) for one in said):
        raise DataError(f"the saves of worker {worker} are not a list of texts")
    return said


def _missed(worker: int, asked: List[str], saved: List[str]) -> None:
    lacks = [one for one in asked if one not in saved]
    if not lacks:
        return
    more = f" and {len(lacks) - 1} more" if len(lacks) > 1 else ""
    said = f"worker {worker} asked for a save of {lacks[0]}{more}, "
    if len(asked) > len(saved):
        raise UsageError(f"{said}which worker 0 did not: nothing was saved there; {ADVICE}")
    warn_of(f"{said}but worker 0 saved {saved[-1]}: only worker 0's save was written")


class Asked:
    """The saves that this worker has asked for, each text once, because a script may save to one place after every
    pass."""

    def __init__(self) -> None:
        self._calls: List[str] = []

    def note(self, what: str, where: str) -> None:
        """Records a call that asked for a save. On worker 0 the save is already written."""
        text = f"{what} into '{where}'"
        if text not in self._calls:
            self._calls.append(text)

    def settle(self, client: "Client", index: int, workers: int) -> None:
        """Leaves this worker's record, and compares it with those that other workers have left. Raises UsageError for a
        save that was asked for but not written; warns instead if worker 0 wrote at least as many saves, to other
        places. The record is left before others are read, so that the later of two workers sees both."""
        if workers == 1 or (index != 0 and not self._calls):
            return
        leave_note(client, index, self._calls)
        found = notes_left(client, [0] if index != 0 else range(1, workers))
        for worker, said in found.items():
            texts = _texts(said, worker)
            if index == 0:
                _missed(worker, texts, self._calls)
            else:
                _missed(index, self._calls, texts)
