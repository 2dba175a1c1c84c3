"""Converts keywords to options of the commands, and names of options in the library's messages to keywords.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from tug._abi import ffi
from tug._arrays import Path, listed_in, word
from tug._errors import ArgumentTypeError, UsageError
from tug._library import lib, text_of

Option = Union[None, bool, int, float, str, Path, List[Any], Tuple[Any, ...]]


class _Known(NamedTuple):
    help: str
    is_switch: bool
    is_list: bool  # whether the option may be given several times


def _names(command: str) -> Dict[str, _Known]:
    """Returns the options of a command by name."""
    c = ffi.new("struct tug_option *")
    names: Dict[str, _Known] = {"config": _Known("files of options", False, True)}
    i = 0
    while lib.tug_model_option(command.encode(), i, c):
        names[text_of(c.name)] = _Known(text_of(c.help), bool(c.is_switch), bool(c.is_list))
        i += 1
    return names


def _text(name: str, value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return word(value, name).decode("utf-8", "surrogateescape")


# Names that other libraries have for settings which are arguments here, not options.
_ARGUMENTS = {"verbose": "progress=True prints the passes, and progress=False does not",
              "verbosity": "progress=True prints the passes, and progress=False does not",
              "sample_weight": "weight= has the examples' weights", "weights": "weight= has the examples' weights",
              "callbacks": "progress= and on_pass= are functions that are called",
              "cat_features": "categorical= names the columns", "categorical_feature": "categorical= names the columns"}


def meant(keyword: str, command: str = "train") -> Optional[str]:
    """Returns the option that was perhaps meant, as a keyword, or None."""
    near = lib.tug_model_option_meant(command.encode(), word(keyword.replace("_", "-"), "option"))
    return None if near == ffi.NULL else text_of(near).replace("-", "_")


def _meant(keyword: str, command: str) -> str:
    if command == "train" and keyword in _ARGUMENTS:
        return _ARGUMENTS[keyword]
    near = meant(keyword, command)
    return f"did you mean '{near}'?" if near is not None else f"'tug {command} --help' lists the options"


_OF_NAMES = {"by", "cross-columns", "drop", "dump-fields", "group", "keep", "lists", "missing", "numeric", "only"}


# Options that are one path, so a list or an array of texts is not joined by commas.
_ONE_PATH = {"dump", "history", "init-from", "log-dir", "out", "publish", "report", "resume", "tfevents"}


_BESIDE = {"history": "; Model.history has the passes, also without a file"}


def _refuse_bool(keyword: str, value: Any, known: _Known) -> None:
    raise ArgumentTypeError(f"{keyword}: needs a value ({known.help.partition(';')[0]}), not {bool(value)}"
                            f"{_BESIDE.get(keyword, '')}")


def option_words(function: str, command: str, options: Dict[str, Any]) -> List[str]:
    """Returns keywords as options of a command, "NAME=VALUE". A keyword with the value None is left out."""
    names = _names(command)
    words: List[str] = []
    for keyword, value in options.items():
        name = keyword.replace("_", "-")
        if name not in names:
            raise ArgumentTypeError(f"{function}: there is no option '{keyword}'; {_meant(keyword, command)}")
        if name == "resume" and isinstance(value, (bool, np.bool_)):  # --resume may stand without a value
            value = "yes" if value else "no"
        if isinstance(value, (bool, np.bool_)) and not names[name].is_switch:
            _refuse_bool(keyword, value, names[name])
        several = listed_in(value)
        if several is not None and name in _ONE_PATH:
            raise ArgumentTypeError(f"{keyword}: must be one path, not {type(value).__name__} of {len(several)}")
        if value is None or (several == [] and name in _OF_NAMES):
            continue
        if several is not None:
            several = [_text(keyword, v) for v in several]
            comma = next((v for v in several if "," in v and name in _OF_NAMES), None)
            if comma is not None:
                raise UsageError(f"{keyword}: {comma!r} has a comma, which separates names: give each name by itself, "
                                 "and rename a column whose name has a comma")
            words += [f"{name}={v}" for v in several] if names[name].is_list else [f"{name}={','.join(several)}"]
        else:
            words.append(f"{name}={_text(keyword, value)}")
    return words


def option_names() -> FrozenSet[str]:
    """Returns the names of the options of `tug train`, as keywords."""
    return frozenset(name.replace("-", "_") for name in _names("train"))


lib.tug_log_keywords(True)
