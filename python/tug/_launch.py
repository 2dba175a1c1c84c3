"""A whole cluster of processes on this machine, for a test, a notebook or `python -m tug launch`.

The scheduler and the servers run `python -m tug` with this Python; workers are a
command, or callers of Cluster.connect. Roles end when the launcher does, even if that is killed: their
standard input is a pipe from it.

SPDX-License-Identifier: Apache-2.0
"""

import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from types import TracebackType
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Type

from tug import _disk
from tug._arrays import Path, seconds, whole, word
from tug._client import Client, connect
from tug._errors import ArgumentTypeError, Error, LaunchError, SystemFailure, Timeout, UsageError
from tug._exit import at_exit
from tug._library import deadline_of

LOOK_SECONDS = 0.02  # between two looks at the processes
LEAVE_SECONDS = 15.0  # for the scheduler and servers, when the workers have ended
SAID_LINES = 5  # of a process that failed

_NOT_INHERITED = ("DMLC_", "PADDLE_PSERVERS_", "PADDLE_TRAINER", "PADDLE_PORT", "POD_IP", "TRAINING_ROLE",
                  "TUG_SCHEDULER", "TUG_HOST", "TUG_PORT", "TUG_INTERFACE", "TUG_CLUSTER", "TUG_CA", "TUG_CERT",
                  "TUG_KEY", "TUG_SERVERS", "TUG_WORKERS")

_running: "weakref.WeakSet[Cluster]" = weakref.WeakSet()


class Process:
    """One process of a cluster: role ("scheduler", "server", "worker"), rank, and its output."""

    def __init__(self, role: str, rank: int, words: Sequence[str], env: Mapping[str, str],
                 log: Optional[str], stdin: Optional[int]) -> None:
        self.role, self.rank, self.log = role, rank, log
        self._said = ""  # when the file is gone
        out = None if log is None else _disk.own_file(log)
        try:
            self._popen = subprocess.Popen(words, env=dict(env), stdin=stdin, stdout=out,
                                           stderr=None if out is None else subprocess.STDOUT,
                                           start_new_session=True)
        except OSError as error:
            raise LaunchError(f"{role} {rank}: cannot start {words[0]}: {error.strerror}") from error
        finally:
            if out is not None:
                out.close()

    @property
    def pid(self) -> int:
        """Its number in the system."""
        return self._popen.pid

    @property
    def code(self) -> Optional[int]:
        """None while it lives; its exit code, or minus the signal that killed it."""
        return self._popen.poll()

    def output(self) -> str:
        """The text that it has written so far to its two outputs."""
        if self.log is None or not os.path.exists(self.log):
            return self._said
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to it and to what it has started."""
        if self.code is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass

    def wait(self, timeout: float) -> bool:
        """Whether it ends in this time, in seconds."""
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> str:
        """Describes its end, as the beginning of a sentence."""
        code = self.code
        how = (f"was killed by signal {-code} ({signal.Signals(-code).name})" if code is not None and code < 0
               else f"ended with exit code {code}")
        return f"{self.role} {self.rank} (process {self.pid}) {how}"

    def close(self) -> None:
        """Kills it if it lives, and forgets it."""
        self.kill()
        self._popen.wait()
        self._said = self.output()
        if self._popen.stdin is not None:
            self._popen.stdin.close()


def _hold_port() -> socket.socket:
    """Returns a socket that is bound to a free port of 127.0.0.1 and keeps it from other processes: only one that names
    the port and sets SO_REUSEADDR, as the scheduler does, may listen there."""
    held = socket.socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
    except OSError as error:
        held.close()
        raise LaunchError(f"no port of 127.0.0.1 is free for the scheduler: {error}") from error
    return held


class Cluster:
    """The processes that tug.launch has started, in `processes`; `scheduler` is its address, `name` the cluster's. A
    context manager: at its end nothing is left behind. LaunchError: a process has failed, and the message has its last
    words; UsageError: the cluster has ended. One thread uses it."""

    def __init__(self, command: Optional[Sequence[str]], servers: int, workers: int, env: Mapping[str, str],
                 dead_seconds: float, wait_seconds: float, echo: bool) -> None:
        self.servers, self.workers = servers, workers
        self.name = f"launch-{os.getpid()}-{time.monotonic_ns()}"
        self._held = _hold_port()  # until the cluster's end
        self.scheduler = f"127.0.0.1:{self._held.getsockname()[1]}"
        self.processes: List[Process] = []
        self._directory = _disk.of_process("launch")
        self._echo = echo
        self._clients: List[Client] = []
        self._over = False
        self._base = {k: v for k, v in os.environ.items() if not k.startswith(_NOT_INHERITED)}
        self._base.update(env)
        self._base.update({"TUG_DEAD_SECONDS": repr(dead_seconds), "TUG_WAIT_SECONDS": repr(wait_seconds)})
        _running.add(self)
        try:
            self._start(command)
        except BaseException:
            self.kill()
            raise

    def _start(self, command: Optional[Sequence[str]]) -> None:
        for role, n in (("scheduler", 1), ("server", self.servers)):
            for rank in range(n):
                words = [sys.executable, "-m", "tug", role, "--with-launcher"]
                self._add(role, rank, words, subprocess.PIPE)
        for rank in range(self.workers if command is not None else 0):
            self._add("worker", rank, list(command or ()), subprocess.DEVNULL)

    def _add(self, role: str, rank: int, words: List[str], stdin: int) -> None:
        log = None if self._echo else os.path.join(self._directory, f"{role}-{rank}.log")
        env = self.environment(role, rank)
        if role != "worker":  # as this process finds the package
            env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        self.processes.append(Process(role, rank, words, env, log, stdin))

    def environment(self, role: str = "worker", rank: int = 0) -> Dict[str, str]:
        """The whole environment of a process of this role, as tug launch sets it."""
        host, port = self.scheduler.rsplit(":", 1)
        env = dict(self._base)
        env.update({"DMLC_ROLE": role, "DMLC_NUM_SERVER": str(self.servers), "DMLC_NUM_WORKER": str(self.workers),
                    "DMLC_PS_ROOT_URI": host, "DMLC_PS_ROOT_PORT": port, "DMLC_NODE_HOST": host,
                    "TUG_SCHEDULER": self.scheduler, "TUG_CLUSTER": self.name})
        if role != "scheduler":
            env[f"DMLC_{role.upper()}_ID"] = str(rank)
        return env

    def process(self, role: str, rank: int = 0) -> Process:
        """One of the processes. UsageError: there is none."""
        for p in self.processes:
            if (p.role, p.rank) == (role, rank):
                return p
        raise UsageError(f"there is no {role} {rank} in this cluster")

    def connect(self, **options: Any) -> Client:
        """tug.connect to this cluster, with its options. The cluster's end closes the client."""
        self._check_roles()
        options.setdefault("wait_seconds", float(self._base["TUG_WAIT_SECONDS"]))
        try:
            client = connect(self.scheduler, cluster=self.name, **options)
        except SystemFailure:
            self._check_roles()  # a process that has failed says why
            raise
        self._clients.append(client)
        return client

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until all workers have ended well, and then the others. The first
        process that fails ends all, and is named in a tug.LaunchError with the end of
        its output; tug.Timeout: they are still running."""
        end = deadline_of(timeout)
        while any(p.code is None for p in self.processes if p.role == "worker"):
            self._check_roles()
            if time.monotonic() > end:
                raise Timeout(f"the workers have not ended after {timeout:.3g} s")
            time.sleep(LOOK_SECONDS)
        self._check_roles()
        self._let_end()

    def _let_end(self) -> None:
        end = time.monotonic() + LEAVE_SECONDS
        for p in self.processes:
            if not p.wait(max(end - time.monotonic(), 0.01)):
                self._fail(f"{p.role} {p.rank} (process {p.pid}) has not ended {LEAVE_SECONDS:.0f} s after the workers")
            if p.code != 0:
                self._fail_of(p)
        self._close()

    # The first process that died is the reason, not one that reacted to it: servers and the scheduler before workers.
    def _check_roles(self) -> None:
        if self._over:
            raise UsageError("this cluster has ended")
        failed = [p for p in self.processes if p.code not in (None, 0)]
        if failed:
            killed = [p for p in failed if (p.code or 0) < 0]
            self._fail_of((killed or failed)[0])

    def _fail_of(self, p: Process) -> NoReturn:
        said = [line for line in p.output().splitlines() if line.strip()][-SAID_LINES:]
        self._fail(p.end() + (": " + "\n  ".join(said) if said else ""))

    def _fail(self, text: str) -> NoReturn:
        self.kill()
        raise LaunchError(text)

    def kill(self) -> None:
        """Ends all processes now, and closes what connect() gave."""
        for p in self.processes:
            p.close()
        self._close()

    def _close(self) -> None:
        self._over = True
        _running.discard(self)
        for client in self._clients:
            try:
                client.close()
            except Error:
                pass  # the cluster has ended, and the caller knows why
        for p in self.processes:
            p.close()
        self._held.close()
        _disk.remove_of_process(self._directory)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._over:
            return
        if error is not None:
            self.kill()
            return
        try:
            for client in self._clients:
                client.close()
            if self._clients and not any(p.role == "worker" for p in self.processes):
                self._check_roles()
                self._let_end()
        finally:
            if not self._over:
                self.kill()


def launch(command: Optional[Sequence[str]] = None, *, servers: int = 1, workers: int = 1,
           env: Optional[Mapping[str, str]] = None, save_root: Optional[Path] = None,
           dead_seconds: float = 5, wait_seconds: float = 600, echo: bool = False) -> Cluster:
    """Starts a scheduler, servers and, with a command, workers, as processes on this machine.

        with tug.launch(["python3", "train.py"], servers=2, workers=2) as cluster:
            cluster.wait()

        with tug.launch(servers=2) as cluster, cluster.connect() as client:   # this process is the worker
            table = client.table("w", dim=16)

    command: the words of a worker's command line; None: no worker is started, and
    callers of Cluster.connect are workers. env: variables for all processes. save_root: the directory below which
    servers may
    save, and load what was saved; without it they refuse to. dead_seconds: without a sign of life a process
    is dead. wait_seconds: the longest wait of any of them.
    echo: processes write to this one's outputs instead of keeping it (Process.output)."""
    if command is not None and not isinstance(command, (list, tuple)):
        raise ArgumentTypeError("command: must be a list of words, as [sys.executable, 'train.py']")
    if command is not None:
        if not command:
            raise UsageError("command: is empty")
        command = [os.fsdecode(word(w, f"command[{i}]")) for i, w in enumerate(command)]
    return Cluster(command, whole(servers, "servers", 1, 4096), whole(workers, "workers", 1, 4096),
                   _variables(env, save_root), seconds(dead_seconds, "dead_seconds"),
                   seconds(wait_seconds, "wait_seconds"), echo)


def _variables(env: Any, save_root: Any) -> Dict[str, str]:
    if env is not None and not isinstance(env, Mapping):
        raise ArgumentTypeError(f"env: must be a dictionary of texts, not {type(env).__name__}")
    ret = {os.fsdecode(word(k, "env")): os.fsdecode(word(v, f"env['{k}']")) for k, v in (env or {}).items()}
    if save_root is not None:
        ret["TUG_SAVE_ROOT"] = os.path.abspath(os.fsdecode(word(save_root, "save_root")))
    return ret


@at_exit
def _kill_all() -> Optional[str]:
    for cluster in list(_running):
        cluster.kill()
    return None
