"""Errors for names of MXNet that tug's stores, optimizers and schedulers do not have, with their replacements.

SPDX-License-Identifier: Apache-2.0
"""

import difflib
from typing import Any, Iterable, Mapping, Optional

from tug._errors import UsageError

PAGE = "docs/from-mxnet.md maps mxnet.kvstore"
OF_STORE: Mapping[str, str] = {
    "num_dead_node": "use get_num_dead_node(node_id)",
    "get_dead_nodes": "use get_num_dead_node(node_id)",
    "set_barrier_before_exit": "a store waits for the other workers when the program ends, and not after an exception",
    "_set_barrier_before_exit": "a store waits for the other workers when the program ends, and not after an exception",
    "handle": "a store has no handle of MXNet's C library; tug/kvstore.h is the interface for C",
    "_send_command": "use _send_command_to_servers(head, body)",
    "run_server": "importing tug.kvstore runs a server; tug.kvserver.run runs one with the program's own functions",
    "_run_server": "importing tug.kvstore runs a server; tug.kvserver.run runs one with the program's own functions",
    "is_worker": "use tug.role(); a process that has a store is a worker",
    "num_servers": "workers do not need the number of servers; `tug status` shows it",
}


class NoSuchName(UsageError, AttributeError):
    """An object or a module has no attribute of this name; the message says what to use."""


def no_such(what: str, name: str, there: Iterable[str], answers: Optional[Mapping[str, str]] = None) -> Exception:
    """Returns the error for a name that `what` does not have. It names the replacement from `answers`, else the most
    similar name in `there`, else the page of all names."""
    if name.startswith("__"):  # copy, pickle and others look for such names
        return AttributeError(name)
    answer = (answers or {}).get(name)
    if answer is None:
        near = difflib.get_close_matches(name, [one for one in there if not one.startswith("__")], 1)
        answer = f"did you mean {near[0]}?" if near else PAGE
    return NoSuchName(f"{what} has no {name!r}: {answer}")


def of_module(module: Any, name: str) -> Exception:
    """Returns the error for a name that a module does not have."""
    return no_such(module.__name__, name, getattr(module, "__all__", dir(module)))
