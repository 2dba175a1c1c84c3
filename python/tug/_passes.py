"""Reports of a pass while a model is trained, and the history that stays.

SPDX-License-Identifier: Apache-2.0
"""

import math
import sys
from typing import Any, Callable, NamedTuple, Optional, Union


class Progress(NamedTuple):
    """How a pass goes (struct tug_progress); NaN: there is none."""

    pass_: int
    passes: int
    share: float  # of the pass; negative: not known
    done: bool
    examples: int
    loss: float
    auc: float
    valid_loss: float
    valid_auc: float

    def __str__(self) -> str:
        text = f"pass {self.pass_}/{self.passes}"
        if not self.done and self.share >= 0:
            text += f" {100 * self.share:3.0f} %"
        for name in ("loss", "auc", "valid_loss", "valid_auc"):
            value = getattr(self, name)
            if value == value:
                text += f"  {name.replace('_', ' ')} {value:.5f}"
        return text


class Pass(NamedTuple):
    """The record of a pass that has ended (struct tug_pass); None: it was not measured."""

    pass_: int  # from 1
    examples: int  # trained on, without those held out for validation
    loss: Optional[float]  # of these, each before it was trained on
    auc: Optional[float]
    valid_examples: int  # 0: there is no validation
    valid_loss: Optional[float]
    valid_auc: Optional[float]
    seconds: float  # reading, training and validation, without saves
    best: bool  # validation was better than after all passes before


Hears = Union[None, bool, Callable[["Progress"], None]]
OnPass = Optional[Callable[["Pass"], None]]


def pass_of(p: Any) -> Pass:
    loss, auc, valid_loss, valid_auc = (None if math.isnan(x) else x for x in (p.loss, p.auc, p.valid_loss,
                                                                               p.valid_auc))
    return Pass(getattr(p, "pass"), p.examples, loss, auc, p.valid_examples, valid_loss, valid_auc, p.seconds,
                bool(p.best))


class Printer:
    """Progress in a terminal, on one line; in a notebook a line for each pass."""

    def __init__(self) -> None:
        self.draws = sys.stderr is not None and sys.stderr.isatty()
        self.says = self.draws or "ipykernel" in sys.modules

    def __call__(self, progress: Progress) -> None:
        if self.draws:
            sys.stderr.write(f"\r{progress}\033[K" + ("\n" if progress.done else ""))
            sys.stderr.flush()
        elif self.says and progress.done:
            print(progress, file=sys.stderr)
