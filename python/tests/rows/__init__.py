"""Rows with the names of tug's five predecessors: each row has a name, how it is checked, and the expected result.

Each system has a module, with rows in the order of the system's documents. A name works (the row runs it, or names a
test that does, or the source file that implements it), is refused with an error, or works in part, with the reason on a
page of docs/. test_rows.py checks and counts all rows.

SPDX-License-Identifier: Apache-2.0
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

Words = Union[str, Sequence[str]]


class Row(NamedTuple):
    name: str
    counts: str              # "works", "partly" or "refused"
    check: str               # the function of test_rows.py that checks the row, without "check_"
    what: str
    says: Tuple[str, ...] = ()


def _texts(says: Words) -> Tuple[str, ...]:
    return (says,) if isinstance(says, str) else tuple(says)


def runs(name: str, code: str) -> Row:
    """A row of Python code that runs in one process."""
    return Row(name, "works", "python", code)


def refused(name: str, code: str, says: Words) -> Row:
    """A row of Python code that raises an error; its message has each text of `says`."""
    return Row(name, "refused", "python_refused", code, _texts(says))


def line(name: str, words: str, says: Words = ()) -> Row:
    """A row with a shell command, "tug ...", which ends with exit code 0; its output has each text of `says`."""
    return Row(name, "works", "command", words, _texts(says))


def line_refused(name: str, words: str, says: Words) -> Row:
    """A row with a shell command that ends with exit code 2; its output has each text of `says`."""
    return Row(name, "refused", "command_refused", words, _texts(says))


def cxx(name: str, code: str) -> Row:
    """A row of C++11 statements that compile with ps/ps.h."""
    return Row(name, "works", "cxx", code)


def cxx_refused(name: str, code: str, says: Words) -> Row:
    """A row of C++11 lines that do not compile; the compiler's output has each text of `says`."""
    return Row(name, "refused", "cxx_refused", code, _texts(says))


def tested(name: str, path: str, text: str) -> Row:
    """A row for a name that another test of the project runs. `text`, mostly that test's name, is in the file
    `path`."""
    return Row(name, "works", "text_of_file", path, (text,))


def inner(name: str, path: str, text: Optional[str] = None) -> Row:
    """A row for an internal name that no user writes. The file `path`, with `text` in it, does its work here."""
    return Row(name, "works", "text_of_file", path, _texts(text) if text else ())


def told(name: str, page: str, says: Words) -> Row:
    """A row for a name whose replacement a page of docs/ tells. `page` may end with "#" and a heading."""
    return Row(name, "works", "page", page, _texts(says))


def partly(name: str, page: str, says: Words) -> Row:
    """A row for a name that works in part; the page tells which part, and why."""
    return Row(name, "partly", "page", page, _texts(says))


def page_refused(name: str, page: str, says: Words) -> Row:
    """A row for a name that tug does not have; the page names it and tells why."""
    return Row(name, "refused", "page", page, _texts(says))


Rows = List[Row]
