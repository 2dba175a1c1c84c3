"""Requests in flight, which keep their arrays alive while the library uses them.

A request's arrays belong to the library from before the call until it has ended: the client keeps
them in its set of flights meanwhile, whatever becomes of the Request.

SPDX-License-Identifier: Apache-2.0
"""

import math
import threading
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from tug._abi import ffi
from tug._arrays import Floats, real
from tug._errors import Error, Timeout, error_of
from tug._library import last_error, lib

if TYPE_CHECKING:
    from tug._client import Client


class Flight:
    """A request of the library, with the arrays that the library uses."""

    __slots__ = ("ts", "arrays", "pulls", "statuses")

    def __init__(self, arrays: Tuple[Any, ...], pulls: bool) -> None:
        self.ts = ffi.new("uint64_t *")
        self.arrays = arrays
        self.pulls = pulls
        self.statuses: List[int] = []  # of tug_wait


class Request:
    """A push, pull or assign that was sent. wait() ends it. Any thread may wait, and more than once; each time it
    returns, or raises, the same.

    A push or assign that is dropped without wait() continues; Client.flush or
    Client.close raise its error. A pull that is dropped is given up."""

    def __init__(self, client: "Client", flight: Flight, what: str, out: Optional[Floats]) -> None:
        self._client = client
        self._flight: Optional[Flight] = flight
        self._what = what
        self._out = out
        self._error: Optional[Error] = None
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Returns whether wait() would return, or raise, at once."""
        flight = self._flight
        return flight is None or bool(self._client._status_of(lib.tug_is_done, flight.ts[0]))

    def wait(self, timeout: Optional[float] = None) -> Optional[Floats]:
        """Waits, at most `timeout` seconds (None: the client's wait_seconds); returns the pulled rows, or None.
        tug.Timeout: it is not done yet, and can be waited for again. Ctrl-C leaves it as it is, too."""
        if timeout is not None:
            real(timeout, "timeout", -math.inf, math.inf)
        with self._lock:
            if self._flight is not None:
                self._end(self._flight, timeout)
            if self._error is not None:
                raise self._error
            return self._out

    def cancel(self) -> None:
        """Cancels the request: its arrays are free at once. A push that is cancelled is in each partition of the
        table once or not at all."""
        with self._lock:
            flight = self._flight
            if flight is not None:
                self._client._run(lib.tug_cancel, flight.ts[0])
                self._over(flight)
                self._error = Error(f"{self._what} was cancelled")

    def _over(self, flight: Flight) -> None:
        self._flight = None
        self._client._flights.discard(flight)

    def _end(self, flight: Flight, timeout: Optional[float]) -> None:
        try:
            wait_for(self._client, flight, timeout)
        except Error as error:
            if not self._client.closed and not is_over(self._client, flight):
                raise
            self._error = error
        except BaseException:  # Ctrl-C; the request may have ended at the same moment
            status = flight.statuses[-1] if flight.statuses else lib.TUG_EINTERRUPTED
            if status != 0 and status != lib.TUG_EINTERRUPTED:
                self._error = error_of(status, last_error())
            if status == 0 or (self._error is not None and is_over(self._client, flight)):
                self._over(flight)
            else:
                self._error = None
            raise
        self._over(flight)
        self._client._warn_of_left_out()

    def __del__(self) -> None:
        flight = getattr(self, "_flight", None)
        if flight is not None:
            self._client._dropped.append(flight)  # nothing is called here: this may be any moment

    def __repr__(self) -> str:
        state = "done" if self._flight is None else "sent"
        return f"<tug.Request: {self._what}, {state}>"


def is_over(client: "Client", flight: Flight) -> bool:
    """Returns whether the library has released the request."""
    return bool(client._status_of(lib.tug_is_done, flight.ts[0]))


def wait_for(client: "Client", flight: Flight, timeout: Optional[float]) -> None:
    """Calls tug_wait; raises Timeout if the request is not done in time."""
    if timeout is not None and timeout <= 0:
        if not is_over(client, flight):
            raise Timeout(f"request {flight.ts[0]} is not done yet")
        timeout = None
    try:
        client._run(lib.tug_wait, flight.ts[0], timeout or 0.0, statuses=flight.statuses)
    except OSError as error:
        if not client.closed and not is_over(client, flight):
            raise Timeout(str(error)) from None
        raise


def reap(client: "Client", most: int) -> None:
    """Handles requests that the program has dropped: pulls are cancelled, pushes are released when they are done."""
    for _ in range(min(most, len(client._dropped))):
        try:
            flight = client._dropped.popleft()
        except IndexError:
            return
        if flight.pulls:
            client._run(lib.tug_cancel, flight.ts[0])
        elif not is_over(client, flight):
            client._dropped.append(flight)
            continue
        else:
            try:
                client._run(lib.tug_wait, flight.ts[0], 0.0)
            except Error as error:
                client._failed.append(error)
        client._flights.discard(flight)
