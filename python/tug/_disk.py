"""Makes, replaces and removes files and directories for the package: no other module does (tools/check). Links at the
end of a path that the package has named are not followed; a link is removed itself, and its target stays.

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

# A save is one of these directories; save_over makes the other beside it. Files with other names are not ours.
SAVE = re.compile(r"save-([0-9]{6}|[1-9][0-9]{6,8})", re.ASCII)
_NEW_SAVE = "save-new-"
# The files of a save, and of an unfinished one (src/save/save.c).
_OF_A_SAVE = re.compile(r"(manifest\.json|run\.json|names\.words|history\.jsonl|.+\.rows)(\.[0-9a-f]{16}\.tmp)?",
                        re.ASCII)


def temporary(prefix: str, directory: Optional[str] = None) -> str:
    """A new directory that only this account can enter; remove_tree removes it."""
    return tempfile.mkdtemp(prefix=prefix, dir=directory)


def lock_directory(path: str) -> int:
    """A descriptor that locks a directory until it is closed, or its process ends."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


_MODE = 0o1700  # of a directory of a process: nothing else has it (src/os/temp_home.h)
_OF_PROCESS = re.compile(r"tug-(copy|dataset|fleet|launch|model|net)-[0-9]+-(\w{6}|\w{8})", re.ASCII)
_MAKING = "tug-new-"
_IS_MAKING = re.compile(_MAKING + r"(\w{6}|\w{8})", re.ASCII)
_MAKING_SECONDS = 3600
_locks: Dict[str, int] = {}


def of_process(kind: str) -> str:
    """A new directory in the temporary one, for this process: remove_of_process removes it, or, where the process is
    killed, another one that makes one. It is locked as long as the process lives, and has its name, tug-KIND-PID-...,
    when it is."""
    sweep()
    made = temporary(_MAKING)
    path = os.path.join(os.path.dirname(made), f"tug-{kind}-{os.getpid()}-{os.path.basename(made)[len(_MAKING):]}")
    try:
        with contextlib.suppress(OSError):  # without a lock nobody sweeps it
            _locks[path] = lock_directory(made)
            os.fchmod(_locks[path], _MODE)
        os.rename(made, path)
    except BaseException:
        _unlock(path)
        remove_tree(made)
        raise
    return path


def remove_of_process(path: Optional[str]) -> None:
    """Removes what of_process has made in this process, and not in the one that this was forked off: both have the
    objects whose end it waits for."""
    if path is not None and f"-{os.getpid()}-" in os.path.basename(path):
        remove_tree(path)
        _unlock(path)


def _unlock(path: str) -> None:
    lock = _locks.pop(path, None)
    if lock is not None:
        os.close(lock)


def sweep() -> None:
    """Removes the directories of processes that are no more."""
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
    """The same, for a save that is not complete: is_new_save(its name)."""
    return temporary(_NEW_SAVE, directory)


def is_new_save(name: str) -> bool:
    """Whether new_save has made it, here or in a process that was ended."""
    return name.startswith(_NEW_SAVE)


def remove_tree(path: str) -> None:
    """Removes a directory that `temporary` has made, with all that is in it; errors are ignored."""
    if os.path.islink(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def remove_save(directory: str, name: str) -> None:
    """Removes a save in `directory`, the manifest first: without it, it is none. Files of others stay. If
    it is a link, only the link is removed."""
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
    """Gives what is at `path` another name. A link there is replaced."""
    os.replace(path, to)


def sync_directory(path: str) -> None:
    """Makes sure that renamed files are still there after a power cut."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def make_directory(path: str) -> None:
    """As mkdir -p."""
    os.makedirs(path, exist_ok=True)


def new_file(path: str) -> BinaryIO:
    """A file where there is nothing yet, in a directory that `temporary` has made."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "wb")


def own_file(path: str) -> BinaryIO:
    """Opens a file for writing, as new_file does, but an existing file is overwritten. A symbolic link is an error."""
    how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(path, how, 0o666), "wb")


def replace_file(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Makes a file under a name that cannot be guessed and gives it its own when it is complete."""
    made = f"{path}.{secrets.token_hex(8)}.tmp"
    try:
        with new_file(made) as file:
            write(file)
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
