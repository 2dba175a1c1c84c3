"""fluid.io: saves and loads the model of a program that runs without a fleet. With a fleet, use
fleet.save_persistables.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import Any, List, Optional, Sequence, Tuple

from tug import _disk
from tug._arrays import Path
from tug._errors import UsageError
from tug._model import Model
from tug.fleet import _program
from tug.fleet._program import DeclaredNet, Program


def _is_save(directory: str) -> bool:
    names = os.listdir(directory)
    return bool(names) and all(_disk.SAVE.fullmatch(name) or _disk.is_new_save(name) for name in names)


def _put(made: str, target: str, older: List[str]) -> None:
    """Moves the save in `made` to `target` as its newest one, which readers open."""
    number = max((int(name[5:]) for name in older if _disk.SAVE.fullmatch(name)), default=0) + 1
    for name in os.listdir(made):
        _disk.rename(os.path.join(made, name), os.path.join(target, f"save-{number:06}"))
    _disk.sync_directory(target)  # the new save is on disk before the older one is removed


def save_over(model: Model, directory: Path) -> str:
    """Writes the model as the only save of a directory, replaces an older one, and returns the directory. If the
    process is killed meanwhile, the older save or the new one is there, perhaps with leftovers that the next save
    removes."""
    target = os.path.abspath(os.fspath(directory))
    if not os.path.isdir(target) or not _is_save(target):
        model.save(target)
        return target
    older = os.listdir(target)
    made = _disk.new_save(target)
    try:
        model.save(made)
        _put(made, target, older)
    finally:
        _disk.remove_tree(made)
    for name in older:
        if _disk.is_new_save(name):
            _disk.remove_tree(os.path.join(target, name))
        else:
            _disk.remove_save(target, name)
    return target


def save_net(net: DeclaredNet, directory: Path) -> str:
    """Writes the net's trained model, or the save that the net begins with, to a directory, and returns the
    directory."""
    if net.model is not None and net.trained:
        return save_over(net.model, directory)
    if net.begins_with is None:
        raise UsageError("save_persistables: the net is not trained yet: train it first")
    with net.open_save(net.begins_with) as begun:
        return save_over(begun, directory)


def save_persistables(executor: Any, dirname: Path, main_program: Optional[Program] = None) -> str:
    """Writes the net's model into `dirname`, replaces a model that is there, and returns the path. `tug eval --from`
    reads it."""
    del executor
    net = (main_program or _program.default_main_program()).net
    if net is None:
        raise UsageError("save_persistables: the program has no net")
    return save_net(net, dirname)


def load_persistables(executor: Any, dirname: Path, main_program: Optional[Program] = None) -> None:
    """Makes the net begin with a save of save_persistables, of fleet.save_persistables or of `tug train --out`."""
    del executor
    program = main_program or _program.default_main_program()
    if program.net is None:
        raise UsageError("load_persistables: the program has no net")
    save = os.path.abspath(os.fspath(dirname))
    program.net.open_save(save).close()  # raises if it is not a save, or a save of another net
    program.net.begin_with(save)
    program.net.begun = True


def save_inference_model(dirname: Path, feeded_var_names: Optional[Sequence[str]] = None, target_vars: Any = None,
                         executor: Any = None, main_program: Optional[Program] = None, **unused: Any) -> List[str]:
    """Does the same as save_persistables, and returns the names of target_vars, as Paddle does. A save holds slots,
    layers and rows: tug.Scorer, tug.load, `tug predict` and tug/score.h can use it without the script."""
    del unused
    net = (main_program or _program.default_main_program()).net
    if net is not None:
        net.check_feeds(feeded_var_names)
    save_persistables(executor, dirname, main_program)
    targets = target_vars if isinstance(target_vars, (list, tuple)) else [target_vars]
    return [one.name for one in targets if isinstance(one, _program.Variable)]


def load_inference_model(dirname: Path, executor: Any = None, **unused: Any) -> Tuple[Program, List[str], List[Any]]:
    """Loads a save into the net of the default main program (load_persistables). Returns the program, the names of its
    slots, and the variables that can be fetched, for exe.run(program, feed=..., fetch_list=...) and
    infer_from_dataset."""
    del unused
    load_persistables(executor, dirname)
    program = _program.default_main_program()
    assert program.net is not None
    return program, [one.name for one in program.net.slots], [program.var("predict")]
