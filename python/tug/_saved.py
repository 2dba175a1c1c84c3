"""A saved model as bytes, for copies and pickles of models: its files, by their paths below the directory.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import Callable, Dict, Optional

from tug import _disk


def read_save(save: Callable[[str], None]) -> Dict[str, bytes]:
    """What save(directory) writes."""
    found: Dict[str, bytes] = {}
    directory = _disk.temporary("tug-copy-")
    try:
        save(directory)
        for folder, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, directory)] = file.read()
    finally:
        _disk.remove_tree(directory)
    return found


def write_save(files: Dict[str, bytes]) -> str:
    """A new directory with these files, which remove_save removes: in this process only, for after a fork both
    processes have the object whose end it waits for."""
    directory = _disk.temporary(f"tug-copy-{os.getpid()}-")
    try:
        for name, data in files.items():
            path = os.path.join(directory, name)
            _disk.make_directory(os.path.dirname(path))
            with _disk.new_file(path) as file:
                file.write(data)
    except BaseException:
        remove_save(directory)
        raise
    return directory


def remove_save(directory: Optional[str]) -> None:
    """Removes what write_save made."""
    if directory is not None and os.path.basename(directory).startswith(f"tug-copy-{os.getpid()}-"):
        _disk.remove_tree(directory)
