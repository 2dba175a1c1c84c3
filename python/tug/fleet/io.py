"""fluid.io: the model of a program that runs alone, saved and loaded. In a fleet it is fleet.save_persistables.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import tempfile
from typing import Any, Optional

from tug._arrays import Path
from tug._errors import UsageError
from tug._model import Model
from tug.fleet import _program
from tug.fleet._program import DeclaredNet, Program



def _is_save(directory: str) -> bool:
    names = os.listdir(directory)
    return bool(names) and all(name.startswith("save-") for name in names)


def save_over(model: Model, directory: Path) -> str:
    """The model as the only save of a directory, in place of an older one there."""
    target = os.path.abspath(os.fspath(directory))
    if not os.path.isdir(target) or not _is_save(target):
        model.save(target)
        return target
    parent, name = os.path.split(target)
    beside = tempfile.mkdtemp(prefix=f".{name}-", dir=parent)
    new, old = os.path.join(beside, "new"), os.path.join(beside, "old")
    try:
        model.save(new)
        os.rename(target, old)
        try:
            os.rename(new, target)
        except BaseException:
            os.rename(old, target)
            raise
    finally:
        if os.path.isdir(target):  # else the older one is beside, and stays there
            shutil.rmtree(beside, True)
    return target


def save_net(net: DeclaredNet, directory: Path) -> str:
    """What the net has learnt, or what it begins with."""
    if net.model is not None and net.trained:
        return save_over(net.model, directory)
    if net.begins_with is None:
        raise UsageError("save_persistables: the net has learnt nothing yet")
    with net.open_save(net.begins_with) as begun:
        return save_over(begun, directory)


def save_persistables(executor: Any, dirname: Path, main_program: Optional[Program] = None) -> str:
    """Writes the net's model into `dirname`, in place of one that is there: a save that tug eval measures."""
    del executor
    net = (main_program or _program.default_main_program()).net
    if net is None:
        raise UsageError("save_persistables: the program has no net")
    return save_net(net, dirname)


def load_persistables(executor: Any, dirname: Path, main_program: Optional[Program] = None) -> None:
    """The net is what save_persistables, this one or the fleet's, or `tug train --out` has written."""
    del executor
    program = main_program or _program.default_main_program()
    if program.net is None:
        raise UsageError("load_persistables: the program has no net")
    save = os.path.abspath(os.fspath(dirname))
    program.net.open_save(save).close()  # says that it is none, or of another net
    program.net.begin_with(save)
    program.net.begun = True
