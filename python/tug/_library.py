"""Finds the C library, checks its version, and calls it.

All functions that take a handle are called through Handle._run. It refuses a handle that was closed or belongs to
another process, counts the threads that use the handle, so that closing frees nothing that is still in use, and
converts status codes to exceptions. Calls release the GIL. A thread that waits in the library runs Python code ten
times a second, so that signals are handled (tug_interrupt_by).

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import itertools
import os
import threading
import time
import warnings
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type, TypeVar

from tug import _errors
from tug._abi import ffi
from tug._build import VERSION
from tug._errors import ArgumentTypeError, ClosedError, Error, ForkedError, UsageError, error_of

PATH = os.environ.get("TUG_LIBRARY") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtug.so")


def text_of(chars: Any) -> str:
    """Returns a C string as text. Bytes that are not UTF-8 appear as escapes such as \\xfc, as in the library's
    messages."""
    raw: bytes = ffi.string(chars)
    return raw.decode("utf-8", "backslashreplace")


def _load() -> Any:
    try:
        found = ffi.dlopen(PATH)
    except OSError as error:
        raise ImportError(
            f"the library of tug cannot be loaded from {PATH}: {error}; `python -m pip install` of the "
            "package builds it, and TUG_LIBRARY can name another one") from error
    version = text_of(found.tug_version())
    if version != VERSION:
        raise ImportError(f"{PATH} is tug {version}, but this package is {VERSION}: they must have the same version; "
                          "install the package again, or set TUG_LIBRARY to a library of this version")
    return found


lib = _load()


class _OfThread(threading.local):
    handle: Optional["Handle"] = None  # the handle of the call that this thread is in
    raised: Optional[BaseException] = None  # the exception that a signal handler raised during the call
    breaks_off = False  # whether this thread was interrupted and waits for no other process any more
    told = False  # whether this thread is inside a function of the program that a training calls


_thread = _OfThread()


def _caught(kind: Any, error: BaseException, trace: Any) -> bool:
    _thread.raised = error
    return True  # ends the library's wait


def _interrupted(_context: Any) -> bool:
    # Python runs signal handlers while it executes this function; _caught gets their exceptions.
    handle = _thread.handle
    return _thread.breaks_off or (handle is not None and handle._closing)


_callback = ffi.callback("bool (*)(void *)", _interrupted, error=True, onerror=_caught)
lib.tug_interrupt_by(_callback, ffi.NULL)
lib.tug_keep_warnings(True)  # the library keeps warnings for warn_after_call instead of printing them


@contextlib.contextmanager
def breaking_off() -> Iterator[None]:
    """Wraps the leaving of a process that ends with an exception: the process does not wait for other processes, and
    ends the cluster."""
    _thread.breaks_off = True
    try:
        yield
    finally:
        _thread.breaks_off = False


@contextlib.contextmanager
def callback_of_program() -> Iterator[None]:
    """A context for the program's functions that the library calls while this thread waits in it. Unlike signal
    handlers, they may use handles: they may send requests, but must not wait."""
    before = _thread.handle
    _thread.handle = None
    try:
        yield
    finally:
        _thread.handle = before


@contextlib.contextmanager
def hearing() -> Iterator[None]:
    """A context for a function of the program that a training calls: the function must not use the objects that this
    thread is using."""
    _thread.told = True
    try:
        yield
    finally:
        _thread.told = False


def last_error() -> str:
    """Returns the message of this thread's last failure in the library, with arguments as Python names them."""
    text = ffi.new("char[]", ffi.string(lib.tug_last_error()))
    lib.tug_option_keywords(text)
    return text_of(text)


def warn_after_call() -> None:
    """Issues the library's warnings about this thread's last call, a line each, as Python warnings. It is called after
    a call that scored data has returned."""
    for text in last_warnings():
        _errors.warn_of(text)


def last_warnings() -> List[str]:
    """Returns the library's warnings about this thread's last call."""
    return text_of(lib.tug_last_warning()).splitlines()


def raise_after_call(error: BaseException) -> None:
    """Keeps an exception of a program's function that the library has called; this thread's current call raises it when
    the library returns."""
    _thread.raised = error


def raise_interrupt() -> None:
    """Raises the exception, if any, that a signal handler raised while this thread was in the library."""
    raised = _thread.raised
    if raised is not None:
        _thread.raised = None
        raise raised


def check(status: int) -> None:
    """Raises the error of this thread's last call if the status is not 0."""
    if _thread.raised is not None:
        raise_interrupt()
    if status != 0:
        raise error_of(status, last_error())


def opened(function: Any, close: Any, *args: Any) -> Any:
    """Returns the object that function(&ret, *args) opens. No object stays open if Ctrl-C comes at that moment."""
    ret = ffi.new(ffi.typeof(function).args[0])
    try:
        check(function(ret, *args))
    except BaseException:
        if ret[0] != ffi.NULL:
            close(ret[0])
        raise
    return ret[0]


CLOSE_SECONDS = 30.0  # how long closing a handle waits for threads that use it
Opened = TypeVar("Opened", bound="Handle")


class Handle:
    """An object of the library that several threads may use. close(), or the end of a `with` block, closes it."""

    def __init__(self, what: str, c: Any) -> None:
        self._what = what
        self._c = c
        self._pid = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._inside: Dict[int, int] = {}  # for each thread in a call, the number of nested calls
        self._closing = False

    @property
    def closed(self) -> bool:
        """Whether it was closed, or belongs to the parent of this forked process."""
        return self._closing or self._pid != os.getpid()

    def _check_process(self) -> None:
        """Raises ForkedError if the handle belongs to the process from which this one was forked: locks that threads of
        that process held at the fork would never be released here."""
        if self._pid != os.getpid():
            raise ForkedError(f"this {self._what} belongs to process {self._pid}, and this is process {os.getpid()}, "
                              "which was forked from it: open one here")

    def _enter(self, ident: int) -> None:
        self._check_process()
        if _thread.handle is not None:
            if _thread.told:
                raise UsageError(f"on_pass and progress must not use a {self._what} while the model is training: to "
                                 "evaluate after each pass, train one pass a call (epochs=1)")
            raise UsageError(f"a signal handler used a {self._what} while its thread waits in the library; "
                             "let it raise an exception, or set a flag")
        with self._changed:
            if self._closing:
                raise ClosedError(f"this {self._what} is closed")
            self._inside[ident] = self._inside.get(ident, 0) + 1

    def _leave(self, ident: int) -> None:
        with self._changed:
            n = self._inside.get(ident, 0) - 1
            if n > 0:
                self._inside[ident] = n
            else:
                self._inside.pop(ident, None)
            if self._closing:
                self._changed.notify_all()

    def _status_of(self, function: Any, *args: Any) -> int:
        """Calls function(handle, *args), which does not return a status, and returns its result."""
        ident = threading.get_ident()
        self._enter(ident)
        _thread.handle = self
        try:
            status: int = function(self._c, *args)
        finally:
            _thread.handle = None
            self._leave(ident)
        if _thread.raised is not None:
            raise_interrupt()
        return status

    def _run(self, function: Any, *args: Any, statuses: Optional[List[int]] = None) -> None:
        """Calls function(handle, *args), which returns a status, and raises its error. The status is appended to
        `statuses`, even if Ctrl-C arrives right after the function has returned."""
        results: List[int] = [] if statuses is None else statuses
        ident = threading.get_ident()
        self._enter(ident)
        _thread.handle = self
        try:
            # in one C call, which Ctrl-C cannot interrupt
            results.extend(itertools.starmap(function, ((self._c, *args),)))
            status = results[-1]
            if status != 0:
                error = error_of(status, last_error())
        finally:
            _thread.handle = None
            self._leave(ident)
        if _thread.raised is not None:
            raise_interrupt()
        if status != 0:
            if status == lib.TUG_EINTERRUPTED and self._closing:
                raise ClosedError(f"this {self._what} was closed by another thread while this one waited")
            raise error

    def _begin_closing(self, patience: float = CLOSE_SECONDS) -> bool:
        """Refuses new calls, interrupts calls that wait, and waits until no thread is in a call. Returns False if the
        handle was closed before or belongs to another process."""
        if self._pid != os.getpid():
            return False
        if _thread.handle is not None:
            raise UsageError(f"a signal handler must not close a {self._what} while its thread waits in the "
                             "library; let it raise an exception, or set a flag")
        with self._changed:
            if self._closing:
                return False
            self._closing = True
            self._changed.wait_for(self._others_are_out, patience)
            if not self._others_are_out():
                raise Error(f"the {self._what} cannot be closed: threads {sorted(self._inside)} still use it after "
                            f"{patience:.0f} s; its memory is not freed")
        return True

    def close(self) -> None:
        """Closes the object. A second call does nothing."""
        raise NotImplementedError

    def __reduce__(self) -> Tuple[Any, ...]:
        raise ArgumentTypeError(f"a {self._what} cannot be copied or pickled: open one in the process that uses it")

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        try:
            self.close()
        except Error:
            if error is None:  # otherwise the exception of the `with` block is raised
                raise

    def _others_are_out(self) -> bool:
        # This thread is not in a call, even if an exception has left its entry behind; threads that have ended are not
        # in a call, either.
        me = threading.get_ident()
        alive = {t.ident for t in threading.enumerate()}
        return not any(i != me and i in alive for i in self._inside)




class OwnedHandle(Handle):
    """A handle that a function of the library frees when it is closed or garbage collected."""

    def __init__(self, what: str, c: Any, free: Callable[[Any], Any]) -> None:
        super().__init__(what, c)
        self._free = free

    def close(self) -> None:
        """Frees the object. A second call does nothing."""
        if self._begin_closing():
            self._free(self._c)

    def __del__(self) -> None:
        if hasattr(self, "_free") and not self.closed and not self._inside:
            self._closing = True
            self._free(self._c)


def deadline_of(seconds: Optional[float]) -> float:
    """Returns the time.monotonic() at which a timeout ends; infinity for None."""
    return float("inf") if seconds is None else time.monotonic() + seconds
