"""A saved model as bytes, for copies and pickles of models: its files, by their paths below the directory.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import tempfile
from typing import Callable, Dict, Optional


def read_save(save: Callable[[str], None]) -> Dict[str, bytes]:
    """What save(directory) writes."""
    found: Dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="tug-copy-") as directory:
        save(directory)
        for folder, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, directory)] = file.read()
    return found


def write_save(files: Dict[str, bytes]) -> str:
    """A new directory with these files, which remove_save removes: in this process only, for after a fork both
    processes have the object whose end it waits for."""
    directory = tempfile.mkdtemp(prefix=f"tug-copy-{os.getpid()}-")
    try:
        for name, data in files.items():
            path = os.path.join(directory, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
    except BaseException:
        remove_save(directory)
        raise
    return directory


def remove_save(directory: Optional[str]) -> None:
    """Removes what write_save made."""
    if directory is not None and os.path.basename(directory).startswith(f"tug-copy-{os.getpid()}-"):
        shutil.rmtree(directory, ignore_errors=True)
