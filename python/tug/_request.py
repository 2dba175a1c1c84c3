"""Requests in flight, which keep their arrays alive while the library uses them.

The library uses a request's arrays from the call until the request has ended. During this time the client keeps them in
its set of flights, even if the program drops the Request.

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
        self.statuses: List[int] = []  # results of tug_wait, the last one at the end


class Request:
    """A push, pull or assign that was sent and that wait() ends. Any thread may wait, also repeatedly; each call
    returns or raises the same.

    If the program drops a push or assign without wait(), the request continues, and Client.flush or Client.close raises
    its error. A dropped pull is cancelled."""

    def __init__(self, client: "Client", flight: Flight, what: str, out: Optional[Floats]) -> None:
        self._client = client
        self._flight: Optional[Flight] = flight
        self._what = what
        self._out = out
        self._error: Optional[Error] = None
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether wait() would return or raise at once."""
        flight = self._flight
        return flight is None or bool(self._client._status_of(lib.tug_is_done, flight.ts[0]))

    def wait(self, timeout: Optional[float] = None) -> Optional[Floats]:
        """Waits, at most `timeout` seconds (None: the client's wait_seconds), and returns the pulled rows, or None for
        other requests. Raises tug.Timeout if the request is not done yet; it can be waited for again, also after
        Ctrl-C."""
        if timeout is not None:
            real(timeout, "timeout", -math.inf, math.inf)
        with self._lock:
            if self._flight is not None:
                self._end(self._flight, timeout)
            if self._error is not None:
                raise self._error
            return self._out

    def cancel(self) -> None:
        """Cancels the request; its arrays may be reused at once. A cancelled push was applied once or not at all in
        each partition of the table."""
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
            self._client._dropped.append(flight)  # __del__ may run at any moment, so it calls nothing of the library

    def __repr__(self) -> str:
        state = "done" if self._flight is None else "sent"
        return f"<tug.Request: {self._what}, {state}>"


def is_over(client: "Client", flight: Flight) -> bool:
    """Returns whether the library has ended the request, and no longer uses its arrays."""
    return bool(client._status_of(lib.tug_is_done, flight.ts[0]))


def wait_for(client: "Client", flight: Flight, timeout: Optional[float]) -> None:
    """Waits for a request with tug_wait. Raises Timeout if it is not done in time."""
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
    """Ends up to `most` requests that the program has dropped: cancels pulls, and releases pushes that are done."""
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
