"""Starts a whole cluster of processes on this machine, for a test, a notebook or `python -m tug launch`.

The scheduler and the servers run `python -m tug` with this Python, or with all_roles=True the caller's command. Workers
run the caller's command, or are threads of the caller that use Cluster.connect. The standard input of `python -m tug`
is a pipe from the launcher, so that it ends when the launcher ends, even if the launcher is killed.

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

LOOK_SECONDS = 0.02  # the interval in which Cluster.wait checks the processes
LEAVE_SECONDS = 15.0  # the time that the scheduler and servers have to end after the workers
SAID_LINES = 5  # the number of a failed process's last lines that an error message quotes

_NOT_INHERITED = ("DMLC_", "PADDLE_PSERVERS_", "PADDLE_TRAINER", "PADDLE_PORT", "POD_IP", "TRAINING_ROLE",
                  "TUG_SCHEDULER", "TUG_HOST", "TUG_PORT", "TUG_INTERFACE", "TUG_CLUSTER", "TUG_CA", "TUG_CERT",
                  "TUG_KEY", "TUG_SERVERS", "TUG_WORKERS", "TUG_LAUNCHED")

_running: "weakref.WeakSet[Cluster]" = weakref.WeakSet()


class Process:
    """One process of a cluster, with its role ("scheduler", "server" or "worker"), its rank and its output."""

    def __init__(self, role: str, rank: int, words: Sequence[str], env: Mapping[str, str],
                 log: Optional[str], stdin: Optional[int]) -> None:
        self.role, self.rank, self.log = role, rank, log
        self._said = ""  # the output, kept after the file was removed
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
        """The process id."""
        return self._popen.pid

    @property
    def code(self) -> Optional[int]:
        """The exit code, or minus the number of the signal that killed the process; None while it runs."""
        return self._popen.poll()

    def output(self) -> str:
        """Returns the text that the process has written so far to standard output and standard error."""
        if self.log is None or not os.path.exists(self.log):
            return self._said
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the process and to the processes that it has started."""
        if self.code is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass

    def wait(self, timeout: float) -> bool:
        """Waits up to `timeout` seconds, and returns whether the process has ended."""
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> str:
        """Returns how the process ended, as the beginning of an error message."""
        code = self.code
        how = (f"was killed by signal {-code} ({signal.Signals(-code).name})" if code is not None and code < 0
               else f"ended with exit code {code}")
        return f"{self.role} {self.rank} (process {self.pid}) {how}"

    def close(self) -> None:
        """Kills the process if it still runs, and keeps its output."""
        self.kill()
        self._popen.wait()
        self._said = self.output()
        if self._popen.stdin is not None:
            self._popen.stdin.close()


def _hold_port() -> socket.socket:
    """Returns a socket that is bound to a free port of 127.0.0.1, so that other processes do not get the port: only a
    process that names the port and sets SO_REUSEADDR, as the scheduler does, can listen there."""
    held = socket.socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
    except OSError as error:
        held.close()
        raise LaunchError(f"no port of 127.0.0.1 is free for the scheduler: {error}") from error
    return held


class Cluster:
    """A cluster that tug.launch has started. `processes` are its processes, `scheduler` is the scheduler's address, and
    `name` is the cluster's name. As a context manager it leaves no process or file behind. Methods raise LaunchError,
    with the last lines of its output, if a process has failed, and UsageError if the cluster has ended. Only one thread
    may use it."""

    def __init__(self, command: Optional[Sequence[str]], servers: int, workers: int, env: Mapping[str, str],
                 dead_seconds: Optional[float], wait_seconds: Optional[float], echo: bool, all_roles: bool,
                 log_dir: Optional[str] = None) -> None:
        self.servers, self.workers = servers, workers
        self._all_roles = all_roles
        self.name = f"launch-{os.getpid()}-{time.monotonic_ns()}"
        self._held = _hold_port()  # until the cluster's end
        self.scheduler = f"127.0.0.1:{self._held.getsockname()[1]}"
        self.processes: List[Process] = []
        self._directory = _disk.of_process("launch")
        self._log_dir = log_dir
        self._echo = echo
        self._clients: List[Client] = []
        self._over = False
        self._base = {k: v for k, v in os.environ.items() if not k.startswith(_NOT_INHERITED)}
        self._base.update(env)
        for name, given, default in (("TUG_DEAD_SECONDS", dead_seconds, 5.0),
                                     ("TUG_WAIT_SECONDS", wait_seconds, 600.0)):
            if given is not None or not self._base.get(name):
                self._base[name] = repr(default if given is None else given)
        _running.add(self)
        try:
            self._start(command)
        except BaseException:
            self.kill()
            raise

    def _start(self, command: Optional[Sequence[str]]) -> None:
        for role, n in (("scheduler", 1), ("server", self.servers)):
            for rank in range(n):
                if self._all_roles:
                    self._add(role, rank, list(command or ()), subprocess.DEVNULL)
                else:
                    words = [sys.executable, "-m", "tug", role, "--with-launcher"]
                    self._add(role, rank, words, subprocess.PIPE)
        for rank in range(self.workers if command is not None else 0):
            self._add("worker", rank, list(command or ()), subprocess.DEVNULL)

    def _add(self, role: str, rank: int, words: List[str], stdin: int) -> None:
        log = None if self._echo else os.path.join(self._log_dir or self._directory, f"{role}-{rank}.log")
        env = self.environment(role, rank)
        if stdin == subprocess.PIPE:  # so that the process of the role finds the same package tug
            env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        self.processes.append(Process(role, rank, words, env, log, stdin))

    def environment(self, role: str = "worker", rank: int = 0) -> Dict[str, str]:
        """Returns the whole environment of a process of this role, as `tug launch` sets it."""
        host, port = self.scheduler.rsplit(":", 1)
        env = dict(self._base)
        env.update({"DMLC_ROLE": role, "DMLC_NUM_SERVER": str(self.servers), "DMLC_NUM_WORKER": str(self.workers),
                    "DMLC_PS_ROOT_URI": host, "DMLC_PS_ROOT_PORT": port, "DMLC_NODE_HOST": host,
                    "TUG_SCHEDULER": self.scheduler, "TUG_CLUSTER": self.name})
        if role != "scheduler":
            env[f"DMLC_{role.upper()}_ID"] = str(rank)
        if role == "worker" and not self._all_roles:
            env["TUG_LAUNCHED"] = "workers"
        return env

    def process(self, role: str, rank: int = 0) -> Process:
        """Returns the process of this role and rank. Raises UsageError if the cluster has none."""
        for p in self.processes:
            if (p.role, p.rank) == (role, rank):
                return p
        raise UsageError(f"there is no {role} {rank} in this cluster")

    def connect(self, **options: Any) -> Client:
        """Calls tug.connect for this cluster, with the options given, and returns the client. It is closed when the
        cluster ends."""
        self._check_roles()
        options.setdefault("wait_seconds", float(self._base["TUG_WAIT_SECONDS"]))
        try:
            client = connect(self.scheduler, cluster=self.name, **options)
        except SystemFailure:
            self._check_roles()  # if a process has failed, its error is the cause and is raised instead
            raise
        self._clients.append(client)
        return client

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until all workers have ended with exit code 0, and then for the servers and the scheduler. If a process
        fails, the cluster is killed, and a tug.LaunchError names the process and has the end of its output. Raises
        tug.Timeout if the workers still run after `timeout` seconds."""
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

    # Raises if a process has failed. If several have failed, the message names the likely cause: a process that a
    # signal killed rather than one that ended with an error, and the scheduler or a server rather than a worker.
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
        """Kills all processes, and closes the clients of connect()."""
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
                pass  # closing a client may fail, because the cluster has ended; the caller has the reason already
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
           dead_seconds: Optional[float] = None, wait_seconds: Optional[float] = None, echo: bool = False,
           all_roles: bool = False, log_dir: Optional[Path] = None) -> Cluster:
    """Starts a scheduler, servers and, with a command, workers, as processes on this machine.

        with tug.launch(["python3", "train.py"], servers=2, workers=2) as cluster:
            cluster.wait()

        with tug.launch(servers=2) as cluster, cluster.connect() as client:   # this process is the worker
            table = client.table("w", dim=16)

    command: the words of a worker's command line; None: no worker is started, and this process connects its workers
    itself with Cluster.connect. env: environment variables for all processes. save_root: the directory below which
    servers may save and load; without it they refuse both. dead_seconds: a process without a sign of life for this long
    counts as dead; None: TUG_DEAD_SECONDS, or 5. wait_seconds: the limit of every wait of each process; None:
    TUG_WAIT_SECONDS, or 600. echo: processes write to the outputs of this process, and Process.output() is empty.
    all_roles: the scheduler and the servers run the command, too, as with `tug launch`; programs on tug.fleet,
    tug.kvstore and ps-lite need it. log_dir: a directory that keeps the output of each process, in ROLE-RANK.log; None:
    the output is kept until the cluster has ended."""
    if command is not None and not isinstance(command, (list, tuple)):
        raise ArgumentTypeError("command: must be a list of words, as [sys.executable, 'train.py']")
    if command is not None:
        if not command:
            raise UsageError("command: is empty")
        command = [os.fsdecode(word(w, f"command[{i}]")) for i, w in enumerate(command)]
    elif all_roles:
        raise UsageError("all_roles: needs a command, which then runs in all roles")
    limits = [None if given is None else seconds(given, name)
              for name, given in (("dead_seconds", dead_seconds), ("wait_seconds", wait_seconds))]
    if log_dir is not None and echo:
        raise UsageError("log_dir: cannot be used with echo=True, which shows the output instead of keeping it")
    counts = whole(servers, "servers", 1, 4096), whole(workers, "workers", 1, 4096)
    return Cluster(command, *counts, _variables(env, save_root), limits[0], limits[1], echo, all_roles,
                   None if log_dir is None else _made(log_dir))


def _made(log_dir: Any) -> str:
    directory = os.path.abspath(os.fsdecode(word(log_dir, "log_dir")))
    try:
        _disk.make_directory(directory)
    except OSError as error:
        raise SystemFailure(f"log_dir: cannot make the directory '{directory}': {error.strerror}") from error
    return directory


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
