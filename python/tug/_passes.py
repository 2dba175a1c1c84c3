"""Progress: reports of a running pass. Pass: the record of a pass that has ended.

SPDX-License-Identifier: Apache-2.0
"""

import math
import sys
from typing import Any, Callable, NamedTuple, Optional, Union


class Progress(NamedTuple):
    """A report of a running pass (struct tug_progress). A loss or AUC that was not measured is NaN."""

    pass_: int
    passes: int
    share: float # the finished part of the pass, from 0 to 1; negative: not known
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
    """The record of a pass that has ended (struct tug_pass). A value that was not measured is None."""

    pass_: int # the number of the pass, from 1
    examples: int  # examples that were trained on, without those held out for validation
    loss: Optional[float]  # the mean loss of these examples, each measured before it was trained on
    auc: Optional[float]
    valid_examples: int  # 0: the pass was not validated
    valid_loss: Optional[float]
    valid_auc: Optional[float]
    seconds: float  # the time for reading, training and validation, without saves
    best: bool  # whether validation was better than after each earlier pass


Hears = Union[None, bool, Callable[["Progress"], None]]
OnPass = Optional[Callable[["Pass"], None]]


def pass_of(p: Any) -> Pass:
    loss, auc, valid_loss, valid_auc = (None if math.isnan(x) else x for x in (p.loss, p.auc, p.valid_loss,
                                                                               p.valid_auc))
    return Pass(getattr(p, "pass"), p.examples, loss, auc, p.valid_examples, valid_loss, valid_auc, p.seconds,
                bool(p.best))


class Printer:
    """Prints progress to standard error: in a terminal on one line that changes, in a notebook as a line for each
    pass. With log_every=N it prints every report as a line, also if standard error is a file."""

    def __init__(self, by_batches: bool = False) -> None:
        self.by_batches = by_batches
        self.draws = sys.stderr is not None and sys.stderr.isatty() and not by_batches
        self.says = self.draws or "ipykernel" in sys.modules

    def __call__(self, progress: Progress) -> None:
        if self.draws:
            sys.stderr.write(f"\r{progress}\033[K" + ("\n" if progress.done else ""))
            sys.stderr.flush()
        elif self.by_batches or (self.says and progress.done):
            print(progress, file=sys.stderr)
