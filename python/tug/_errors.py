"""The exceptions of the package: one tree, whose messages are the library's sentences.

    Error                   all of them
      UsageError            a wrong argument, or a call at the wrong time (also a ValueError)
        ClosedError         of something that was closed
        ForkedError         in a process that was forked off the one that opened it
      ArgumentTypeError     an argument of a type that cannot be used (also a TypeError)
      DataError             data or a file is missing or damaged
      SystemFailure         the system refused: file, network or permission (also an OSError)
        Timeout             not done in time (also a TimeoutError)
      OutOfMemory           (also a MemoryError)
      Interrupted           something else than Ctrl-C ended a wait
      InternalError         a bug in tug: please report it
      LaunchError           a process of tug.launch failed

and the category of its warnings, Warning, which is a UserWarning.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Dict, Type


class Warning(UserWarning):  # as tug.Warning: beside tug.Error
    """The category of the package's warnings, for filters: warnings.simplefilter("ignore", tug.Warning)."""


class Error(Exception):
    """The class of every failure of the package; str() is one sentence: what, where, why."""


class UsageError(Error, ValueError):
    """A wrong argument, or a call at the wrong time."""


class ClosedError(UsageError):
    """What was used is closed."""


class ForkedError(UsageError):
    """The object belongs to the process that this one was forked off."""


class ArgumentTypeError(Error, TypeError):
    """An argument has a type that cannot be used; the message names it."""


class DataError(Error):
    """Input data or a file is missing or damaged."""


class SystemFailure(Error, OSError):
    """The system refused: file, network or permission; or the cluster has ended."""


class Timeout(SystemFailure, TimeoutError):
    """Something was not done in time; a request can be waited for again."""


class OutOfMemory(Error, MemoryError):
    """There is no memory left; everything is as it was before the call."""


class Interrupted(Error):
    """A wait was ended, and not by an exception of this thread."""


class InternalError(Error):
    """A bug in tug: please report it."""


class LaunchError(Error):
    """A process that tug.launch started failed; the message has its last words."""


_OF_STATUS: Dict[int, Type[Error]] = {
    -1: UsageError,
    -2: DataError,
    -3: SystemFailure,
    -4: OutOfMemory,
    -5: InternalError,
    -6: Interrupted,
}


def error_of(status: int, sentence: str) -> Error:
    """The exception for a status of the library (enum tug_status)."""
    return _OF_STATUS.get(status, InternalError)(sentence)
