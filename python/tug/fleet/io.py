"""fluid.io: the rows of a program that runs alone, saved and loaded. In a fleet it is fleet.save_persistables.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import Any, Optional, Union

from tug._errors import UsageError
from tug.fleet import _program
from tug.fleet._program import Program
from tug.fleet.executor import Executor

Path = Union[str, "os.PathLike[str]"]


def save_persistables(executor: Any, dirname: Path, main_program: Optional[Program] = None) -> str:
    """Writes the net's tables below `dirname`; where the save is."""
    del executor
    net = (main_program or _program.default_main_program()).net
    if net is None:
        raise UsageError("save_persistables: the program has no net")
    return net.rows.save(os.fspath(dirname), "checkpoint")


def load_persistables(executor: Executor, dirname: Path, main_program: Optional[Program] = None) -> None:
    """Loads what save_persistables, this one or the fleet's, has written."""
    program = main_program or _program.default_main_program()
    if program.net is None:
        raise UsageError("load_persistables: the program has no net")
    if program.net.tables is None:
        executor.run(_program.default_startup_program())
    _program.load(program.net.rows, os.fspath(dirname))
