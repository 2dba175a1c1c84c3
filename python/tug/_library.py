"""The C library: found, checked, called.

All calls of functions that take a handle go through Handle._run: it says whether the handle may be
used (closed, forked), counts who is inside, so that closing never frees what a thread still uses,
and turns status codes into exceptions. Calls release the GIL. A thread that waits in the library
comes back ten times a second to look whether a signal has arrived (tug_interrupt_by).

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
    """A C string as text; bytes that are not UTF-8 as the library shows them, \\xfc."""
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
        raise ImportError(f"{PATH} is tug {version}, but this package is {VERSION}: they must be of one "
                          "version; install the package again, or set TUG_LIBRARY to a library of its own")
    return found


lib = _load()


class _OfThread(threading.local):
    handle: Optional["Handle"] = None  # of the call that this thread is in
    raised: Optional[BaseException] = None  # by a signal's handler, while it waited


_thread = _OfThread()


def _caught(kind: Any, error: BaseException, trace: Any) -> bool:
    _thread.raised = error
    return True  # the wait ends


def _interrupted(_context: Any) -> bool:
    # A signal's handler runs in here, before or after this line; its exception goes to _caught.
    handle = _thread.handle
    return handle is not None and handle._closing


_callback = ffi.callback("bool (*)(void *)", _interrupted, error=True, onerror=_caught)
lib.tug_interrupt_by(_callback, ffi.NULL)
lib.tug_keep_warnings(True)  # warn_after_call says them


@contextlib.contextmanager
def callback_of_program() -> Iterator[None]:
    """Wraps the program's code that the library calls back while this thread waits in
    it: it may do things that a signal's handler must not (it may send; it must not wait)."""
    before = _thread.handle
    _thread.handle = None
    try:
        yield
    finally:
        _thread.handle = before


def last_error() -> str:
    """The sentence of this thread's last failure."""
    return text_of(lib.tug_last_error())


def warn_after_call(stacklevel: int) -> None:
    """Raises the warning of this thread's last call that scored data as one of Python's, once it has returned."""
    if text := text_of(lib.tug_last_warning()):
        warnings.warn(text, _errors.Warning, stacklevel=stacklevel + 1)


def raise_after_call(error: BaseException) -> None:
    """An exception of the program's function that the library called: this thread's
    current call raises it when it returns."""
    _thread.raised = error


def raise_interrupt() -> None:
    """Raises what a signal's handler raised while this thread was in the library."""
    raised = _thread.raised
    if raised is not None:
        _thread.raised = None
        raise raised


def check(status: int) -> None:
    """Raises the error of a status that is not 0."""
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


CLOSE_SECONDS = 30.0  # for threads that are inside to come out
Opened = TypeVar("Opened", bound="Handle")


class Handle:
    """Something of the library's that threads share and that is closed one day: by close(), or at a `with`'s end."""

    def __init__(self, what: str, c: Any) -> None:
        self._what = what
        self._c = c
        self._pid = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._inside: Dict[int, int] = {}  # threads, and how often
        self._closing = False

    @property
    def closed(self) -> bool:
        """Whether it was closed, or belongs to another process."""
        return self._closing or self._pid != os.getpid()

    def _check_process(self) -> None:
        """ForkedError if it belongs to another process, in which threads may have held what this one waits for."""
        if self._pid != os.getpid():
            raise ForkedError(f"this {self._what} belongs to process {self._pid}, and this is process "
                              f"{os.getpid()}, which was forked off it: open one here")

    def _enter(self, ident: int) -> None:
        self._check_process()
        if _thread.handle is not None:
            raise UsageError(f"a signal's handler used a {self._what} while its thread waits in the library; "
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
        """Calls function(handle, *args) and returns its result: for functions that do not return a status."""
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
        """function(handle, *args), which returns a status; raises what it failed with. `statuses` has the
        status also if Ctrl-C came between the function's return and this one's."""
        results: List[int] = [] if statuses is None else statuses
        ident = threading.get_ident()
        self._enter(ident)
        _thread.handle = self
        try:
            results.extend(itertools.starmap(function, ((self._c, *args),)))  # no bytecode in between
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
        """Lets no thread enter any more, and waits until none is inside; interrupts waiting ones.
        False: it is closed already, or is another process's."""
        if self._pid != os.getpid():
            return False
        if _thread.handle is not None:
            raise UsageError(f"a signal's handler must not close a {self._what} while its thread waits in the "
                             "library; let it raise an exception, or set a flag")
        with self._changed:
            if self._closing:
                return False
            self._closing = True
            self._changed.wait_for(self._others_are_out, patience)
            if not self._others_are_out():
                raise Error(f"the {self._what} cannot be closed: threads {sorted(self._inside)} have been in it "
                            f"for {patience:.0f} s more; its memory is not given back")
        return True

    def close(self) -> None:
        """Ends it. A second call does nothing."""
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
            if error is None:  # else that one was the first, and counts
                raise

    def _others_are_out(self) -> bool:
        # This thread is here, so it is not inside, whatever an exception at a bad moment left behind.
        me = threading.get_ident()
        alive = {t.ident for t in threading.enumerate()}
        return not any(i != me and i in alive for i in self._inside)




class OwnedHandle(Handle):
    """A handle that a function of the library frees, also when it is garbage collected."""

    def __init__(self, what: str, c: Any, free: Callable[[Any], Any]) -> None:
        super().__init__(what, c)
        self._free = free

    def close(self) -> None:
        """Frees it. A second call does nothing."""
        if self._begin_closing():
            self._free(self._c)

    def __del__(self) -> None:
        if hasattr(self, "_free") and not self.closed and not self._inside:
            self._closing = True
            self._free(self._c)


def deadline_of(seconds: Optional[float]) -> float:
    """The time.monotonic() at which a timeout ends."""
    return float("inf") if seconds is None else time.monotonic() + seconds
