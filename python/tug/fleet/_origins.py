"""Records the original file and line of each line in a file that a dataset writes. Beside NAME lies the file
.NAME.origins, from which the library takes the user's file and line for its messages (docs/data.md).

SPDX-License-Identifier: Apache-2.0
"""

import gzip
import os
from typing import List, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from tug import _disk
from tug._errors import DataError

Numbers = npt.NDArray[np.int64]


class Lines(NamedTuple):
    """Lines with their origins: text[i] came from line line[i] of files[file[i]]."""

    text: List[bytes]
    files: List[str]
    file: Numbers
    line: Numbers

    def where(self, i: int) -> str:
        """Returns the origin of line i as FILE:LINE."""
        return f"{self.files[self.file[i]]}:{self.line[i]}"


def beside(path: str) -> str:
    """Returns the path of the origins file of `path`."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.origins")


def write_origins(path: str, files: Sequence[str], file: Numbers, line: Numbers, piped: bool) -> None:
    """Writes the origins file of `path`. A run of lines that were neighbours in one file takes one entry. piped:
    whether a pipe command has made the lines."""
    new = np.ones(len(line), bool)
    new[1:] = (np.diff(file) != 0) | (np.diff(line) != 1)
    shown = [name.replace("\n", "?") for name in files]
    text = ["P\n"] if piped else []
    text += [f"F {name}\n" for name in shown] + [f"{i + 1} {line[i]} {file[i]}\n" for i in np.flatnonzero(new)]
    with _disk.own_file(beside(path)) as to:
        to.write("".join(text).encode("utf-8", "surrogateescape"))


def _own(path: str, n: int) -> Lines:
    return Lines([], [path], np.zeros(n, np.int64), np.arange(1, n + 1))


def _read_origins(path: str, n: int) -> Lines:
    """Returns the origins of the n lines of `path`. If there is no valid origins file, the lines' origins are in `path`
    itself."""
    try:
        with open(beside(path), encoding="utf-8", errors="surrogateescape") as source:
            said = [one for one in source.read().split("\n")[:-1] if one != "P"]
        files = [one[2:] for one in said if one.startswith("F ")]
        places = np.array([one.split() for one in said if not one.startswith("F ")], np.int64).reshape(-1, 3)
    except (OSError, ValueError, OverflowError):
        return _own(path, n)
    first, line, file = places.T
    if len(places) == 0 or first[0] != 1 or (np.diff(first) <= 0).any() or file.min() < 0 or file.max() >= len(files):
        return _own(path, n)
    number = np.arange(1, n + 1)
    run = np.searchsorted(first, number, "right") - 1
    return Lines([], files, file[run], line[run] + number - first[run])


def read_lines(paths: Sequence[str]) -> Lines:
    """Returns the lines of all files, with their origins."""
    text: List[bytes] = []
    files: List[str] = []
    parts = [Lines([], [], np.empty(0, np.int64), np.empty(0, np.int64))]
    for path in paths:
        with (gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")) as source:
            new = [one if one.endswith(b"\n") else one + b"\n" for one in source]
        part = _read_origins(path, len(new))
        parts.append(part._replace(file=part.file + len(files)))
        files += part.files
        text += new
    return Lines(text, files, np.concatenate([one.file for one in parts]), np.concatenate([one.line for one in parts]))


def tagged(lines: Lines, first_file: int) -> List[bytes]:
    """Returns the lines as "FILE:LINE text" for other workers. FILE is a number, counted from `first_file`."""
    return [b"%d:%d %b" % (file, line, text) for file, line, text in
            zip((lines.file + first_file).tolist(), lines.line.tolist(), lines.text)]


def untagged(said: Sequence[bytes], files: Sequence[str]) -> Lines:
    """Undoes tagged() for lines that other workers have sent. Raises DataError if one is damaged."""
    text: List[bytes] = []
    places = np.empty((len(said), 2), np.int64)
    try:
        for i, one in enumerate(said):
            head, _, rest = one.partition(b" ")
            file, line = head.split(b":")
            places[i] = int(file), int(line)
            text.append(rest)
    except (ValueError, OverflowError) as error:
        raise DataError("global_shuffle: a worker has sent text that is not a line of a file") from error
    if len(said) > 0 and not (0 <= places[:, 0].min() and places[:, 0].max() < len(files)):
        raise DataError("global_shuffle: a worker has dealt lines of a file that it does not have")
    return Lines(text, list(files), places[:, 0], places[:, 1])
