"""Makes, replaces and removes files and directories for the package; tools/check refuses this in other modules. A
symbolic link at the end of a path that the package has chosen is not followed: the link itself is removed, and its
target stays.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from typing import BinaryIO, Callable, Dict, Optional

# The names of saves, and of a save that save_over has not finished. Directories with other names belong to other
# programs.
SAVE = re.compile(r"save-([0-9]{6}|[1-9][0-9]{6,8})", re.ASCII)
_NEW_SAVE = "save-new-"
# The files of a save, and of an unfinished save (src/save/save.c).
_OF_A_SAVE = re.compile(r"(manifest\.json|run\.json|names\.words|history\.jsonl|.+\.rows)(\.[0-9a-f]{16}\.tmp)?",
                        re.ASCII)


def temporary(prefix: str, directory: Optional[str] = None) -> str:
    """Makes a directory that only this account can enter, and returns its path. remove_tree removes it."""
    return tempfile.mkdtemp(prefix=prefix, dir=directory)


def lock_directory(path: str) -> int:
    """Locks a directory, and returns the file descriptor that holds the lock until it is closed or the process ends.
    Raises OSError if another process has the lock."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


# The mode by which a process's directory is recognized; no other directory has it (src/doors/models/temp_home.h).
_MODE = 0o1700
_OF_PROCESS = re.compile(r"tug-(copy|dataset|fleet|launch|model|net)-[0-9]+-(\w{6}|\w{8})", re.ASCII)
_MAKING = "tug-new-"
_IS_MAKING = re.compile(_MAKING + r"(\w{6}|\w{8})", re.ASCII)
_MAKING_SECONDS = 3600
_locks: Dict[str, int] = {}


def of_process(kind: str) -> str:
    """Makes a directory for this process in the temporary directory, and returns its path. The directory is locked
    before it gets its final name, tug-KIND-PID-..., and stays locked while the process runs. remove_of_process removes
    it. If the process was killed, the next process that makes such a directory removes it (sweep)."""
    sweep()
    made = temporary(_MAKING)
    path = os.path.join(os.path.dirname(made), f"tug-{kind}-{os.getpid()}-{os.path.basename(made)[len(_MAKING):]}")
    try:
        with contextlib.suppress(OSError):  # without a lock, sweep() leaves the directory alone
            _locks[path] = lock_directory(made)
            os.fchmod(_locks[path], _MODE)
        os.rename(made, path)
    except BaseException:
        _unlock(path)
        remove_tree(made)
        raise
    return path


def remove_of_process(path: Optional[str]) -> None:
    """Removes a directory of of_process. Does nothing in a forked child of the process that made it: a fork copies the
    objects that call this when they end."""
    if path is not None and f"-{os.getpid()}-" in os.path.basename(path):
        remove_tree(path)
        _unlock(path)


def _unlock(path: str) -> None:
    lock = _locks.pop(path, None)
    if lock is not None:
        os.close(lock)


def sweep() -> None:
    """Removes the directories that processes which no longer run have left."""
    directory = tempfile.gettempdir()
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            if _OF_PROCESS.fullmatch(name) or _IS_MAKING.fullmatch(name):
                with contextlib.suppress(OSError):
                    _sweep_one(os.path.join(directory, name), name.startswith(_MAKING))


def _sweep_one(path: str, making: bool) -> None:
    found = os.lstat(path)
    modes = (_MODE, 0o700) if making else (_MODE,)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) not in modes or \
            (making and time.time() - found.st_mtime < _MAKING_SECONDS):
        return
    lock = lock_directory(path)
    try:
        remove_tree(path)
    finally:
        os.close(lock)


def new_save(directory: str) -> str:
    """Makes a directory in `directory` for a save that is not complete yet, and returns its path."""
    return temporary(_NEW_SAVE, directory)


def is_new_save(name: str) -> bool:
    """Returns whether a name is that of a directory of new_save, in this process or in one that has ended."""
    return name.startswith(_NEW_SAVE)


def remove_tree(path: str) -> None:
    """Removes a directory of `temporary` and its contents. Errors are ignored."""
    if os.path.islink(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def remove_save(directory: str, name: str) -> None:
    """Removes a save in `directory`. The manifest is removed first, because without it the directory is no longer a
    save. Files that do not belong to the save stay. If the save is a symbolic link, only the link is removed."""
    path = os.path.join(directory, name)
    with contextlib.suppress(OSError):
        if os.path.islink(path):
            os.unlink(path)
            return
        at = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for one in sorted(os.listdir(at), key=lambda one: one != "manifest.json"):
                if _OF_A_SAVE.fullmatch(one) is not None:
                    os.unlink(one, dir_fd=at)
        finally:
            os.close(at)
        os.rmdir(path)


def rename(path: str, to: str) -> None:
    """Renames a file or directory, and replaces a file or link at `to`."""
    os.replace(path, to)


def sync_directory(path: str) -> None:
    """Writes a directory to disk, so that renames in it survive a power cut."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def make_directory(path: str) -> None:
    """Makes a directory and its parents, like mkdir -p."""
    os.makedirs(path, exist_ok=True)


def new_file(path: str) -> BinaryIO:
    """Creates a file, for writing, in a directory of `temporary`. Raises OSError if the path exists."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "wb")


def own_file(path: str) -> BinaryIO:
    """Opens a file for writing, and creates or empties it. Raises OSError if the path is a symbolic link."""
    how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(path, how, 0o666), "wb")


def replace_file(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Replaces a file atomically: write(file) fills a file with a random name, which is then renamed to `path`."""
    made = f"{path}.{secrets.token_hex(8)}.tmp"
    try:
        with new_file(made) as file:
            write(file)
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
