"""Saves that workers have asked for. The first worker saves; a script may have all of them call, or ask
is_first_worker() before. A save that only others ask for is never written: each worker
notes its calls, leaves the note when it leaves, and the later of the two finds what was missed.

SPDX-License-Identifier: Apache-2.0
"""

import warnings
from typing import TYPE_CHECKING, Any, List

from tug import _errors
from tug._errors import DataError, UsageError
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
    warnings.warn(f"{said}and worker 0 saved {saved[-1]}: only what that one names is written",
                  _errors.Warning, stacklevel=5)


class Asked:
    """This worker's calls, each text once: it may save to one place after every pass."""

    def __init__(self) -> None:
        self._calls: List[str] = []

    def note(self, what: str, where: str) -> None:
        """A save was asked for; at the first worker, it is done."""
        text = f"{what} into '{where}'"
        if text not in self._calls:
            self._calls.append(text)

    def settle(self, client: "Client", index: int, workers: int) -> None:
        """This worker leaves. UsageError, or a warning where as many saves are elsewhere: saves that were asked for
        and not done, as far as they are known by now; the note is left before it is looked for others', so that the
        later one of two sees both."""
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
