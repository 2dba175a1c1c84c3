"""Runs servers and schedulers of tug.kvstore with functions of the program.

    # server.py, for a cluster whose workers import tug.kvstore
    import tug.kvserver

    def update(key, recv, stored):
        stored -= 0.1 * recv

    def control(head, body):
        print("command", head, body)

    tug.kvserver.run(updater=update, controller=control)

Both functions are called on the thread that calls run, one at a time, and get this server's part of an array. Importing
this module runs nothing.

SPDX-License-Identifier: Apache-2.0
"""

import sys
from typing import Any, Callable, List, Optional

from tug._abi import ffi
from tug._errors import ArgumentTypeError
from tug._kvarrays import default_wrapper
from tug._kvnames import of_module
from tug._kvstore import Updater, call_updater
from tug._library import breaking_off, check, lib, opened
from tug._roles import ended_by_signals

__all__ = ["KVStoreServer", "run"]

LOOK_SECONDS = 0.2  # the interval in which the server checks for signals


class _Raised(List[BaseException]):
    """Exceptions of the program's functions. Those derived from Exception are reported to the worker that sent the push
    or command, and run() continues; others, such as KeyboardInterrupt, end run()."""


def _guarded(raised: _Raised, call: Callable[[], Any]) -> int:
    try:
        call()
    except Exception as error:  # pylint: disable=broad-exception-caught
        raised.append(error)
        return -1
    except BaseException as error:  # pylint: disable=broad-exception-caught
        raised.insert(0, error)
        return -6
    return 0


def run(updater: Optional[Updater] = None, controller: Optional[Callable[[int, bytes], Any]] = None) -> None:
    """Runs this process as a server or the scheduler, as DMLC_* in the environment says, until the workers have ended.

    updater(key, recv, stored) changes `stored` in place, in place of the workers' optimizer. controller(head, body)
    gets the commands that workers send with _send_command_to_servers. If one of them raises an exception, the push or
    command fails at the worker that sent it. Ctrl-C, and SIGTERM or SIGHUP where the program does not handle them, end
    the cluster: all other processes end with an error, and this process ends with exit code 130."""
    for given, what in ((updater, "updater"), (controller, "controller")):
        if given is not None and not callable(given):
            raise ArgumentTypeError(f"{what}: must be a function, not {type(given).__name__}")
    raised = _Raised()
    o = ffi.new("struct tug_kvstore_server_options *")
    kept: List[Any] = []
    if updater is not None:
        wrap, up = default_wrapper(), updater
        kept.append(ffi.callback("tug_updater_fn", lambda _ctx, key, merged, stored: _guarded(
            raised, lambda: call_updater(up, key, merged, stored, None, wrap)), error=-5))
        o.updater = kept[-1]
    if controller is not None:
        control = controller
        kept.append(ffi.callback("int (*)(void *, int32_t, const void *, size_t)", lambda _ctx, head, body, n: _guarded(
            raised, lambda: control(head, bytes(ffi.buffer(body, n)) if n > 0 else b"")), error=-5))
        o.controller = kept[-1]
    _serve(o, raised)


def _serve(o: Any, raised: _Raised) -> None:
    over = ffi.new("bool *")
    with ended_by_signals():
        server = opened(lib.tug_kvstore_server_open, lib.tug_kvstore_server_close, o)
        try:
            while not over[0]:
                check(lib.tug_kvstore_server_run(server, LOOK_SECONDS, over))
                if raised and not isinstance(raised[0], Exception):
                    raise raised[0]
                raised.clear()
        except BaseException:
            with breaking_off():
                lib.tug_kvstore_server_close(server)
            raise
        check(lib.tug_kvstore_server_close(server))


class KVStoreServer:
    """mxnet.kvstore_server.KVStoreServer: KVStoreServer(kv).run() does the same as run(). kv has no effect and may be
    None."""

    def __init__(self, kvstore: Any = None) -> None:
        self.kvstore = kvstore

    def run(self, updater: Optional[Updater] = None, controller: Optional[Callable[[int, bytes], Any]] = None) -> None:
        """Does the same as the function run of this module."""
        run(updater, controller)


def __getattr__(name: str) -> Any:
    raise of_module(sys.modules[__name__], name)
