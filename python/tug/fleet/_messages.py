"""Paddle's messages from worker to worker: handlers by type, and the messages that wait for the next barrier, at which
all workers exchange them.

SPDX-License-Identifier: Apache-2.0
"""

import struct
from typing import Any, Callable, Dict, List, Optional, Tuple

from tug._arrays import kind_of, whole
from tug._errors import ArgumentTypeError, DataError, UsageError

HEAD = struct.Struct("<IIi")  # the head of each message: its number of bytes, the receiver's index, the message's type
COUNT = struct.Struct("<Q")
WAITING_MAX = 1 << 24  # the most bytes of waiting messages of a worker

Handler = Callable[[int, int, bytes], Optional[int]]
Gather = Callable[[bytes], List[bytes]]  # returns all workers' bytes; all must give the same number of bytes


def _parts(said: bytes, sender: int) -> List[Tuple[int, int, bytes]]:
    """Returns (receiver, type, message) of each message that a worker has sent."""
    found, at = [], 0
    while at < len(said):
        if len(said) - at < HEAD.size:
            raise DataError(f"the messages of worker {sender} are damaged")
        n, to, kind = HEAD.unpack_from(said, at)
        at += HEAD.size
        if n > len(said) - at:
            raise DataError(f"the messages of worker {sender} are damaged")
        found.append((to, kind, said[at:at + n]))
        at += n
    return found


class Messages:
    """A worker's handlers, and its messages until the next barrier."""

    def __init__(self) -> None:
        self._handlers: Dict[int, Handler] = {}
        self._waiting = bytearray()
        self.count = 0  # number of waiting messages
        self.connected = False  # all workers have called create_client2client_connection

    def register(self, msg_type: Any, handler: Any) -> None:
        """Sets the handler of a type, in place of an earlier one."""
        if not callable(handler):
            raise ArgumentTypeError(f"handler: must be a function, not {kind_of(handler)}")
        self._handlers[whole(msg_type, "msg_type", 0, 2 ** 31 - 1)] = handler

    def send(self, msg_type: Any, to: int, msg: Any) -> None:
        """Keeps a message for the next barrier."""
        kind = whole(msg_type, "msg_type", 0, 2 ** 31 - 1)
        if not self.connected:
            raise UsageError("send_client2client_msg: all workers must call create_client2client_connection() first")
        if isinstance(msg, str):
            msg = msg.encode()
        if not isinstance(msg, (bytes, bytearray, memoryview)):
            raise ArgumentTypeError(f"msg: must be bytes or a text, not {kind_of(msg)}")
        said = bytes(msg)
        if len(self._waiting) + HEAD.size + len(said) > WAITING_MAX:
            raise UsageError(f"msg: {len(said)} bytes are too many: a worker sends at most {WAITING_MAX} bytes between "
                             "two barriers")
        self._waiting += HEAD.pack(len(said), to, kind) + said
        self.count += 1

    def exchange(self, gather: Gather) -> List[Tuple[int, List[Tuple[int, int, bytes]]]]:
        """Sends the waiting messages. Returns the messages of each worker, with its index. All workers call it."""
        said = bytes(self._waiting)
        sizes = [COUNT.unpack(one)[0] for one in gather(COUNT.pack(len(said)))]
        most = max(sizes)
        if most > WAITING_MAX:
            raise DataError(f"worker {sizes.index(most)} announces {most} bytes of messages, more than {WAITING_MAX}")
        all_said = gather(said.ljust(most, b"\0")) if most > 0 else [b""] * len(sizes)
        self._waiting.clear()
        self.count = 0
        return [(i, _parts(one[:size], i)) for i, (one, size) in enumerate(zip(all_said, sizes))]

    def deliver(self, me: int, received: List[Tuple[int, List[Tuple[int, int, bytes]]]]) -> None:
        """Calls the handlers of this worker's messages, in the order of senders, and of each sender in the order of
        sending. Raises the first error after all handlers were called."""
        failure: Optional[Exception] = None
        for sender, messages in received:
            for to, kind, msg in messages:
                if to != me:
                    continue
                try:
                    self._handle(kind, sender, msg)
                except Exception as error:  # a handler may raise any exception
                    failure = failure or error
        if failure is not None:
            raise failure

    def _handle(self, kind: int, sender: int, msg: bytes) -> None:
        if kind not in self._handlers:
            raise UsageError(f"worker {sender} has sent a message of type {kind}, which has no handler here: call "
                             "registe_client2client_msg_handler() before the barrier")
        code = self._handlers[kind](kind, sender, msg)
        if code:
            raise UsageError(f"the handler of messages of type {kind} returned {code} for one of worker {sender}")
