"""Reads and writes a save as a dictionary {path below its directory: bytes}, for copies and pickles of models.

SPDX-License-Identifier: Apache-2.0
"""

import atexit
import os
from typing import Callable, Dict

from tug import _disk


def read_save(save: Callable[[str], None]) -> Dict[str, bytes]:
    """Calls save(directory) with a temporary directory, and returns the files of the save."""
    found: Dict[str, bytes] = {}
    home = _disk.of_process("copy")
    directory = os.path.join(home, "save")  # below home, because a save may lock its own directory
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
    """Writes the files into a new directory, and returns its path. _disk.remove_of_process removes it."""
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
