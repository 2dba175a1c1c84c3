"""A saved model as bytes, for copies and pickles of models: its files, by their paths below the directory.

SPDX-License-Identifier: Apache-2.0
"""

import atexit
import os
import re
import tempfile
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
    processes have the object whose end it waits for. It is locked as long as the process lives, so that others can
    tell what one that was killed has left."""
    sweep()
    made = _disk.temporary("tug-new-copy-")
    directory = made.replace("tug-new-copy-", f"tug-copy-{os.getpid()}-")
    lock = _disk.lock_directory(made)
    try:
        for name, data in files.items():
            path = os.path.join(made, name)
            _disk.make_directory(os.path.dirname(path))
            with _disk.new_file(path) as file:
                file.write(data)
        _disk.rename(made, directory)
    except BaseException:
        _disk.remove_tree(made)
        raise
    _locks[directory] = lock
    return directory


def remove_save(directory: Optional[str]) -> None:
    """Removes what write_save made."""
    if directory is not None and os.path.basename(directory).startswith(f"tug-copy-{os.getpid()}-"):
        _disk.remove_tree(directory)
        os.close(_locks.pop(directory))


def sweep() -> None:
    """Removes copies of processes that are no more, as of workers that a multiprocessing.Pool has ended."""
    _disk.remove_unlocked(tempfile.gettempdir(), _COPY)


_locks: Dict[str, int] = {}
_COPY = re.compile(r"tug-copy-[0-9]+-[a-z0-9_]+")
atexit.register(sweep)
