"""python -m tug: shows the package's versions, runs a role of a cluster, or a whole cluster on this machine.

    python -m tug info                                        versions, the library, and what it needs
    python -m tug launch --servers 2 --workers 2 -- COMMAND   a cluster with COMMAND as each worker, or with --all-roles
                                                              in every role
    python -m tug scheduler | server                          the role that the environment (DMLC_*) describes

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import platform
import sys
import threading
from typing import List

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


def _launch(options: argparse.Namespace) -> None:
    command: List[str] = options.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        sys.exit("python -m tug launch: give the workers' command behind --")
    with ended_by_signals(), tug.launch(
            command, servers=options.servers, workers=options.workers, save_root=options.save_root,
            dead_seconds=options.dead_seconds, wait_seconds=options.wait_seconds, echo=True,
            all_roles=options.all_roles) as cluster:
        cluster.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tug", description=(__doc__ or "").split("SPDX", maxsplit=1)[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("info", help="show the versions, the library, and the system libraries that it needs")
    for name in ("scheduler", "server"):
        one = verbs.add_parser(name, help=f"run a {name} that the environment (DMLC_*) describes")
        one.add_argument("--with-launcher", action="store_true", help="exit when standard input ends")
    one = verbs.add_parser("launch", help="run a scheduler, servers and workers on this machine")
    one.add_argument("--servers", type=int, default=1)
    one.add_argument("--workers", type=int, default=1)
    one.add_argument("--save-root", metavar="DIR", help="the directory below which servers may save")
    one.add_argument("--dead-seconds", type=float, metavar="SECONDS",
                     help="time without a sign of life before a process counts as dead (default: TUG_DEAD_SECONDS, "
                          "or 5)")
    one.add_argument("--wait-seconds", type=float, metavar="SECONDS",
                     help="limit of every wait of each process (default: TUG_WAIT_SECONDS, or 600)")
    one.add_argument("--all-roles", action="store_true",
                     help="run the command as the scheduler and the servers, too: needed by tug.fleet, tug.kvstore, "
                          "ps-lite")
    one.add_argument("command", nargs=argparse.REMAINDER, help="-- and the workers' command")
    return parser


def main() -> None:
    options = _parser().parse_args()
    try:
        if options.verb == "info":
            _info()
        elif options.verb == "launch":
            _launch(options)
        else:
            _role(options.verb, options.with_launcher)
    except tug.Error as error:
        sys.exit(f"tug: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
