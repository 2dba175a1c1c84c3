"""python -m tug: shows the package's versions, runs a role of a cluster, or a whole cluster on this machine.

    python -m tug info                                        versions, the library, and what it needs
    python -m tug launch --servers 2 --workers 2 -- COMMAND   a cluster with COMMAND as each worker, or with --all-roles
                                                              in every role
    python -m tug launch --server_num 2 --worker_num 2 train.py
                                                              as Paddle's launcher: train.py in every role
    python -m tug scheduler | server                          the role that the environment (DMLC_*) describes

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import platform
import re
import sys
import threading
from typing import Dict, List, NoReturn, Tuple

import tug
from tug import _build, _library
from tug._roles import INTERRUPTED, ended_by_signals, run_and_exit


def _info() -> None:
    import cffi
    import numpy
    print(f"tug {tug.__version__}")
    print(f"library          {_library.PATH}")
    print(f"python           {platform.python_version()}, numpy {numpy.__version__}, cffi {cffi.__version__}")
    print("system libraries that the library needs, which are not in the package:")
    for name in _build.NEEDED:
        print(f"  {name}")


def _end_with_launcher() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


def _role(name: str, with_launcher: bool) -> None:
    if with_launcher:
        threading.Thread(target=_end_with_launcher, daemon=True).start()
    run_and_exit(name, lambda: tug.serve(name))


# Options of the command `tug launch` that this launcher lacks. This launcher starts all processes on this machine,
# each server with one loop, and chooses the ports and the name of the cluster.
_OF_THE_COMMAND = ("advertise", "ca", "cert", "child-of", "cluster", "cold-root", "config", "connect-timeout", "force",
                   "host", "hosts", "http", "http-cert", "http-key", "http-targets", "http-token-file",
                   "http-wait", "insecure", "interface", "key", "load-root", "lock", "log-format", "log-level",
                   "loops", "port", "replicas", "restart", "restart-limit", "set", "sparse-loops", "supervise", "sync",
                   "transport", "wrap")
_OTHER_MACHINES = "'tug launch --hosts FILE' starts processes on several machines, and this launcher on this one"
_NO_DEVICES = "give the numbers of processes: --servers and --workers"
# Options of paddle.distributed.launch without a counterpart here, each with its replacement.
_OF_PADDLE = {**dict.fromkeys(("coordinator-num", "coordinators", "heter-devices", "heter-worker-num", "heter-workers",
                               "with-gloo", "backend", "run-mode", "rank"),
                              "tug has servers and workers only, and needs no such setting: leave it out"),
              **dict.fromkeys(("gpus", "devices", "xpus", "npus", "nproc-per-node", "selected-gpus"), _NO_DEVICES),
              **dict.fromkeys(("ips", "cluster-node-ips", "master", "nnodes", "job-id", "host"), _OTHER_MACHINES),
              **dict.fromkeys(("http-port", "started-port"), "tug chooses the ports: leave it out"),
              **dict.fromkeys(("max-restart", "elastic-level", "elastic-server", "elastic-timeout", "elastic-pre-hook",
                               "force"), "tug does not restart a failed run: leave it out")}
_SPELLED = {"server-num": "servers", "worker-num": "workers", "dead-timeout": "dead-seconds",
            "gather-timeout": "wait-seconds"}  # names that other launchers have for options


class _Parser(argparse.ArgumentParser):
    """A parser whose errors say what to use instead of an option of another launcher."""

    def error(self, message: str) -> NoReturn:
        name = next((word.partition("=")[0] for word in message.rpartition("unrecognized arguments: ")[2].split()
                     if word.startswith("--")), "")
        plain = name[2:].replace("_", "-")
        if "unrecognized arguments" in message and plain in _OF_THE_COMMAND:
            message = f"{name} is an option of the command 'tug launch' only: use the command, or leave it out"
        elif "unrecognized arguments" in message and plain in _OF_PADDLE:
            message = f"{name}: {_OF_PADDLE[plain]}"
        elif re.search("--(servers|workers): invalid int value: '.*:", message):
            message = f"--servers and --workers are numbers of processes, not addresses; {_OTHER_MACHINES}"
        super().error(message)


def _spelled(words: List[str]) -> Tuple[List[str], bool]:
    """Returns the words of `launch` with its own names of options, and whether they have one of Paddle's names."""
    found: List[str] = []
    paddle = False
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        valued = i > 0 and words[i - 1].startswith("--") and "=" not in words[i - 1] and words[i - 1] != "--all-roles"
        if word == "--" or not (word.startswith("-") or valued):
            return found + words[i:], paddle
        plain = name[2:].replace("_", "-") if name.startswith("--") else ""
        paddle |= plain in ("server-num", "worker-num")
        known = plain in _SPELLED or plain in ("save-root", "log-dir", "all-roles", "dead-seconds", "wait-seconds")
        found.append(f"--{_SPELLED.get(plain, plain)}{equals}{value}" if known else word)
    return found, paddle


def _variables(given: List[str]) -> Dict[str, str]:
    for one in given:
        if one.find("=") < 1:
            raise tug.UsageError(f"--env takes NAME=VALUE, not '{one}'")
    return dict((one.partition("=")[0], one.partition("=")[2]) for one in given)


def _launch(options: argparse.Namespace, as_paddle: bool) -> None:
    command: List[str] = options.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        sys.exit("python -m tug launch: give the workers' command after --")
    if command[0].endswith(".py") and not os.access(command[0], os.X_OK):
        command = [sys.executable, *command]  # Paddle's launcher takes a script without its interpreter
    with ended_by_signals(), tug.launch(
            command, servers=options.servers, workers=options.workers, save_root=options.save_root,
            env=_variables(options.env), log_dir=options.log_dir, dead_seconds=options.dead_seconds,
            wait_seconds=options.wait_seconds, echo=options.log_dir is None,
            all_roles=options.all_roles or as_paddle) as cluster:
        cluster.wait()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m tug", description=(__doc__ or "").split("SPDX", maxsplit=1)[0],
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("info", help="show the versions, the library, and the system libraries that it needs")
    for name in ("scheduler", "server"):
        one = verbs.add_parser(name, help=f"run a {name} that the environment (DMLC_*) describes")
        one.add_argument("--with-launcher", action="store_true", help="exit when standard input ends")
    one = verbs.add_parser("launch", help="run a scheduler, servers and workers on this machine")
    one.add_argument("--servers", type=int, default=1, metavar="S",
                     help="number of servers (default: 1); also --server_num, Paddle's name, which implies --all-roles")
    one.add_argument("--workers", type=int, default=1, metavar="W",
                     help="number of workers (default: 1); also --worker_num, Paddle's name, which implies --all-roles")
    one.add_argument("--save-root", metavar="DIR", help="the directory below which servers may save")
    one.add_argument("--dead-seconds", type=float, metavar="SECONDS",
                     help="seconds without a message after which a process counts as dead (default: TUG_DEAD_SECONDS, "
                          "or 5)")
    one.add_argument("--wait-seconds", type=float, metavar="SECONDS",
                     help="limit of every wait of each process (default: TUG_WAIT_SECONDS, or 600)")
    one.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                     help="set an environment variable for all processes; may be given several times")
    one.add_argument("--log-dir", metavar="DIR",
                     help="write the output of each process to DIR/ROLE-RANK.log instead of this terminal")
    one.add_argument("--all-roles", action="store_true",
                     help="run the command as the scheduler and the servers, too: needed by tug.fleet, tug.kvstore, "
                          "ps-lite")
    one.add_argument("command", nargs=argparse.REMAINDER, help="-- and the workers' command, or a script in Python")
    return parser


def main() -> None:
    words, as_paddle = sys.argv[1:], False
    if words[:1] == ["launch"]:
        words[1:], as_paddle = _spelled(words[1:])
    options = _parser().parse_args(words)
    try:
        if options.verb == "info":
            _info()
        elif options.verb == "launch":
            _launch(options, as_paddle)
        else:
            _role(options.verb, options.with_launcher)
    except tug.Error as error:
        sys.exit(f"tug: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
