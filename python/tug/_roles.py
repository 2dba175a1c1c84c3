"""Finds the role of this process, and runs the scheduler or a server in it.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import signal
import sys
import threading
from typing import Any, Callable, Iterator, NoReturn, Optional

from tug._abi import ffi
from tug._arrays import choice, seconds, whole, word
from tug._errors import Error, Interrupted, UsageError
from tug._library import breaking_off, check, lib, opened

_GROUPS = {"scheduler": "TUG_GROUP_SCHEDULER", "server": "TUG_GROUP_SERVERS"}
_PADDLE = {"PSERVER": "server", "TRAINER": "worker"}


def role() -> Optional[str]:
    """Returns the role that the environment gives this process: "scheduler", "server" or "worker" (from DMLC_ROLE, else
    from Paddle's TRAINING_ROLE); None if both are unset."""
    dmlc = os.environ.get("DMLC_ROLE")
    if dmlc:
        if dmlc not in ("scheduler", "server", "worker"):
            raise UsageError(f"DMLC_ROLE='{dmlc}' is not one of scheduler, server, worker")
        return dmlc
    paddle = os.environ.get("TRAINING_ROLE")
    if paddle:
        if paddle not in _PADDLE:
            raise UsageError(f"TRAINING_ROLE='{paddle}' is neither PSERVER nor TRAINER")
        return _PADDLE[paddle]
    return None


def serve(as_role: Optional[str] = None, *, scheduler: Optional[str] = None, servers: int = 0,
          workers: int = 0, cluster: Optional[str] = None, host: Optional[str] = None, port: int = 0,
          wait_seconds: float = 0, dead_seconds: float = 0,
          ready: Optional[Callable[[], None]] = None) -> None:
    """Runs the scheduler or a server in this process until the last worker has left.

    as_role: "scheduler" or "server"; None: role(). Arguments that are not given come from the environment (struct
    tug_node_options in tug/kvapp.h). The directories of a server come from TUG_SAVE_ROOT, TUG_LOAD_ROOT (separated by
    commas if there are several) and TUG_COLD_ROOT. `ready` is called when all processes of the cluster have joined.
    Ctrl-C, and SIGTERM or SIGHUP where the program does not handle them, end the cluster: all other processes end with
    an error, and this process ends with exit code 130."""
    which = role() if as_role is None else choice(as_role, "as_role", tuple(_GROUPS))
    if which not in _GROUPS:
        raise UsageError(f"{'this process is a worker' if which == 'worker' else 'the environment sets no role'}"
                         ": only a scheduler or a server serves; call serve('server'), or set DMLC_ROLE")
    o = ffi.new("struct tug_node_options *")
    kept = []
    for name, value in (("scheduler", scheduler), ("cluster", cluster), ("host", host)):
        if value is not None:
            kept.append(ffi.new("char[]", word(value, name)))
            setattr(o, name, kept[-1])
    o.role = getattr(lib, _GROUPS[which])
    o.servers = whole(servers, "servers", 0, 4096)
    o.workers = whole(workers, "workers", 0, 4096)
    o.port = whole(port, "port", 0, 65535)
    o.wait_seconds, o.dead_seconds = seconds(wait_seconds, "wait_seconds"), seconds(dead_seconds, "dead_seconds")
    with ended_by_signals():
        node = opened(lib.tug_node_start, _leave, o)
        try:
            if ready is not None:
                ready()
        except BaseException:
            with breaking_off():
                _leave(node)
            raise
        check(_leave(node))


def _leave(node: Any) -> int:
    status: int = lib.tug_node_finalize(node, False)
    return status


INTERRUPTED = 130  # the exit code of the command in this case


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Wraps the run of a role: SIGTERM and SIGHUP, unless the program handles them, end it in order, as Ctrl-C does.
    They raise SystemExit with the exit code of an interruption."""
    def end(_number: int, _frame: Any) -> None:
        raise SystemExit(INTERRUPTED)

    taken = []
    if threading.current_thread() is threading.main_thread():
        taken = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    try:
        for number in taken:
            signal.signal(number, end)
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def run_and_exit(which: str, run: Callable[[], None]) -> NoReturn:
    """Runs a role that the program did not call itself, and ends the process. An error is printed as one sentence."""
    try:
        run()
    except Interrupted as error:  # the error of another process
        print(f"{which}: {error}", file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)
    except Error as error:
        sys.exit(f"{which}: {error}")
    except (KeyboardInterrupt, SystemExit) as ended:
        code = INTERRUPTED if isinstance(ended, KeyboardInterrupt) else ended.code
        if code == INTERRUPTED:
            print(f"{which}: interrupted", file=sys.stderr, flush=True)
        sys.exit(code)
    sys.exit(0)


def serve_and_exit(unless: bool = False) -> None:
    """If the environment makes this process the scheduler or a server, serves until the run is over and exits. Returns
    at once for other roles, or if `unless` is true."""
    which = role()
    if unless or which not in _GROUPS:
        return
    run_and_exit(str(which), lambda: serve(which))
