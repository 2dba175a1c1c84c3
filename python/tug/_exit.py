"""Runs the package's functions at the end of the interpreter. A failure here changes the exit code to 1, while Python
itself only prints exceptions of atexit functions.

SPDX-License-Identifier: Apache-2.0
"""

import atexit
import os
import sys
from typing import Callable, List, Optional

_ends: List[Callable[[], Optional[str]]] = []


def at_exit(end: Callable[[], Optional[str]]) -> Callable[[], Optional[str]]:
    """Registers a function that is called when the interpreter ends; the function that was registered last is called
    first. If it returns an error message, the message is printed and the exit code is 1."""
    _ends.append(end)
    return end


def _said(end: Callable[[], Optional[str]]) -> Optional[str]:
    try:
        return end()
    except BaseException as error:  # pylint: disable=broad-exception-caught
        return f"{type(error).__name__}: {error}"  # the other functions are called nevertheless


@atexit.register
def _run() -> None:
    failed = [said for said in map(_said, reversed(_ends)) if said is not None]
    if failed:
        sys.stdout.flush()
        print("\n".join(failed), file=sys.stderr, flush=True)
        os._exit(1)
