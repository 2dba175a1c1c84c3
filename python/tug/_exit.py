"""The work at the end of the interpreter, in one place: only here can the exit code
change, since Python prints exceptions of atexit functions and ends as if nothing had been.

SPDX-License-Identifier: Apache-2.0
"""

import atexit
import os
import sys
from typing import Callable, List, Optional

_ends: List[Callable[[], Optional[str]]] = []


def at_exit(end: Callable[[], Optional[str]]) -> Callable[[], Optional[str]]:
    """Calls `end` when the interpreter ends, the last one first. A sentence that it returns is what has failed:
    it is printed, and the exit code is 1."""
    _ends.append(end)
    return end


def _said(end: Callable[[], Optional[str]]) -> Optional[str]:
    try:
        return end()
    except BaseException as error:  # pylint: disable=broad-exception-caught
        return f"{type(error).__name__}: {error}"  # the others are done all the same


@atexit.register
def _run() -> None:
    failed = [said for said in map(_said, reversed(_ends)) if said is not None]
    if failed:
        sys.stdout.flush()
        print("\n".join(failed), file=sys.stderr, flush=True)
        os._exit(1)
