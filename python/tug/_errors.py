"""The exceptions of the package. They form one tree, and most messages come from the library.

    Error                   the base of all errors
      UsageError            a wrong argument, or a call at the wrong time (also a ValueError)
        ClosedError         the object was closed
        ForkedError         the object was opened by the process that this one was forked from
      ArgumentTypeError     an argument of a type that cannot be used (also a TypeError)
      DataError             data or a file is missing or damaged
      SystemFailure         a file, network or permission failure, or the end of the cluster (also an OSError)
        Timeout             not done in time (also a TimeoutError)
      OutOfMemory           there was not enough memory (also a MemoryError)
      Interrupted           a wait was ended by something other than Ctrl-C
      InternalError         a bug in tug: please report it
      LaunchError           a process of tug.launch failed

and the category of its warnings, Warning, which is a UserWarning.

SPDX-License-Identifier: Apache-2.0
"""

import builtins
import os
import sys
import warnings
from typing import Dict, Type


class Warning(UserWarning):  # named after tug.Error, for use as tug.Warning
    """The category of the package's warnings, for filters: warnings.simplefilter("ignore", tug.Warning)."""


def warn_of(text: str, category: Type[builtins.Warning] = Warning) -> None:
    """Issues a warning at the program's line that called the package, through any number of the package's functions."""
    frame, level, package = sys._getframe(1), 2, os.path.dirname(os.path.abspath(__file__)) + os.sep
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


class Error(Exception):
    """The base of all errors of the package. str() is a sentence that tells what failed, where and why."""


class UsageError(Error, ValueError):
    """A wrong argument, or a call at the wrong time."""


class ClosedError(UsageError):
    """The object was closed."""


class ForkedError(UsageError):
    """The object belongs to the parent of this forked process."""


class ArgumentTypeError(Error, TypeError):
    """An argument has a type that cannot be used; the message names it."""


class DataError(Error):
    """Input data or a file is missing or damaged."""


class SystemFailure(Error, OSError):
    """A file, network or permission failure, a server that has died, or the end of the cluster."""


class Timeout(SystemFailure, TimeoutError):
    """Something was not done in time. A request can be waited for again."""


class OutOfMemory(Error, MemoryError):
    """There was not enough memory. Nothing was changed by the call."""


class Interrupted(Error):
    """A wait was ended by something other than an exception of this thread, such as the end of the cluster
    (Client.stop)."""


class InternalError(Error):
    """A bug in tug: please report it."""


class LaunchError(Error):
    """A process that tug.launch has started failed. The message has the last lines of its output."""


_OF_STATUS: Dict[int, Type[Error]] = {
    -1: UsageError,
    -2: DataError,
    -3: SystemFailure,
    -4: OutOfMemory,
    -5: InternalError,
    -6: Interrupted,
}


def error_of(status: int, sentence: str) -> Error:
    """Returns the exception for a status of the library (enum tug_status)."""
    return _OF_STATUS.get(status, InternalError)(sentence)
