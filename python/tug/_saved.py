"""A saved model as bytes, for copies and pickles of models: its files, by their paths below the directory.

SPDX-License-Identifier: Apache-2.0
"""

import atexit
import os
from typing import Callable, Dict

from tug import _disk


def read_save(save: Callable[[str], None]) -> Dict[str, bytes]:
    """The files of save(directory)."""
    found: Dict[str, bytes] = {}
    home = _disk.of_process("copy")
    directory = os.path.join(home, "save")  # which a save may lock, too
    try:
        save(directory)
        for folder, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, directory)] = file.read()
    finally:
        _disk.remove_of_process(home)
    return found


def write_save(files: Dict[str, bytes]) -> str:
    """A new directory with these files, which _disk.remove_of_process removes."""
    directory = _disk.of_process("copy")
    try:
        for name, data in files.items():
            path = os.path.join(directory, name)
            _disk.make_directory(os.path.dirname(path))
            with _disk.new_file(path) as file:
                file.write(data)
    except BaseException:
        _disk.remove_of_process(directory)
        raise
    return directory


atexit.register(_disk.sweep)
