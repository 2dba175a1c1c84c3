"""The names of tug's five predecessors, one row each: how the row is checked, and the result that it expects.

A module of a system has its rows in the order of that system's documents. A row works (it is run here, or a test of
         the
project is named that runs it, or the file where its work is done), is refused by a sentence, or is there in part, with
the reason on a page of docs/. test_rows.py walks them all and counts.

SPDX-License-Identifier: Apache-2.0
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

Words = Union[str, Sequence[str]]


class Row(NamedTuple):
    name: str
    counts: str              # "works", "partly" or "refused"
    check: str               # which function of test_rows.py looks
    what: str
    says: Tuple[str, ...] = ()


def _texts(says: Words) -> Tuple[str, ...]:
    return (says,) if isinstance(says, str) else tuple(says)


def runs(name: str, code: str) -> Row:
    """Lines of Python, in one process."""
    return Row(name, "works", "python", code)


def refused(name: str, code: str, says: Words) -> Row:
    """Python that raises; each text is in the sentence."""
    return Row(name, "refused", "python_refused", code, _texts(says))


def line(name: str, words: str, says: Words = ()) -> Row:
    """A command, "tug ..." in a shell, with exit code 0; each text is in what it says."""
    return Row(name, "works", "command", words, _texts(says))


def line_refused(name: str, words: str, says: Words) -> Row:
    """A command with exit code 2."""
    return Row(name, "refused", "command_refused", words, _texts(says))


def cxx(name: str, code: str) -> Row:
    """Statements of C++11 that compile with ps/ps.h."""
    return Row(name, "works", "cxx", code)


def cxx_refused(name: str, code: str, says: Words) -> Row:
    """Lines of C++11 that do not compile; each text is in what the compiler says."""
    return Row(name, "refused", "cxx_refused", code, _texts(says))


def tested(name: str, path: str, text: str) -> Row:
    """A test of the project runs it: the text, mostly the test's name, is in that file."""
    return Row(name, "works", "text_of_file", path, (text,))


def inner(name: str, path: str, text: Optional[str] = None) -> Row:
    """Nobody writes the name: where the work is done."""
    return Row(name, "works", "text_of_file", path, _texts(text) if text else ())


def told(name: str, page: str, says: Words) -> Row:
    """A page of docs/, with the heading it stands under, says what is used here instead."""
    return Row(name, "works", "page", page, _texts(says))


def partly(name: str, page: str, says: Words) -> Row:
    """Less than there: the page says what and why."""
    return Row(name, "partly", "page", page, _texts(says))


def page_refused(name: str, page: str, says: Words) -> Row:
    """Not there: the page names it and says why."""
    return Row(name, "refused", "page", page, _texts(says))


Rows = List[Row]
