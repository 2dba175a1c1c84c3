"""Data generators: base classes of programs that convert lines of a log to MultiSlot lines, for set_pipe_command.

SPDX-License-Identifier: Apache-2.0
"""

import sys
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

from tug._errors import DataError

Sample = Sequence[Tuple[str, Sequence[Any]]]


class MultiSlotDataGenerator:
    """The base class of data generators for numbers. Override generate_sample(line) so that it returns a function that
    yields samples, [(slot, [value, ...]), ...]."""

    def __init__(self) -> None:
        self._slots: Optional[List[str]] = None
        self._batch = 32

    def set_batch(self, batch_size: int) -> None:
        """Sets the number of samples that generate_batch gets at a time."""
        self._batch = batch_size

    def generate_sample(self, line: Optional[str]) -> Callable[[], Iterable[Sample]]:
        """Returns a function that yields the samples of an input line. line: None in run_from_memory."""
        raise NotImplementedError("override generate_sample(line)")

    def generate_batch(self, samples: Sequence[Sample]) -> Callable[[], Iterable[Sample]]:
        """Returns a function that yields the samples of a batch. Override it to change or reorder them."""
        return lambda: samples

    def _text(self, sample: Sample) -> str:
        slots = [name for name, _ in sample]
        if self._slots is None:
            self._slots = slots
        if slots != self._slots:
            raise DataError(f"generate_sample: slots are {', '.join(slots)}, but were {', '.join(self._slots)} before")
        words: List[str] = []
        for name, values in sample:
            self._check(name, values)
            words += [str(len(values)), *map(str, values)]
        return " ".join(words)

    def _check(self, name: str, values: Sequence[Any]) -> None:
        if not values or not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            raise DataError(f"generate_sample: slot '{name}' must have numbers, at least one, not {values!r}")

    def run_from_memory(self) -> None:
        """Writes the samples of generate_sample(None) to standard output."""
        self._run(self.generate_sample(None)())

    def run_from_stdin(self) -> None:
        """Converts lines of standard input, and writes their samples to standard output."""
        self._run(sample for line in sys.stdin for sample in self.generate_sample(line.rstrip("\n"))())

    def _run(self, samples: Iterable[Sample]) -> None:
        held: List[Sample] = []
        for sample in samples:
            held.append(sample)
            if len(held) == self._batch:
                self._write(held)
                held = []
        self._write(held)

    def _write(self, samples: Sequence[Sample]) -> None:
        for sample in self.generate_batch(samples)() if samples else ():
            sys.stdout.write(self._text(sample) + "\n")


class MultiSlotStringDataGenerator(MultiSlotDataGenerator):
    """The base class of data generators whose values are texts already, each a word without blanks."""

    def _check(self, name: str, values: Sequence[Any]) -> None:
        if not values or not all(isinstance(v, str) and len(v.split()) == 1 and v == v.strip() for v in values):
            raise DataError(f"generate_sample: slot '{name}' must have words, at least one, not {values!r}")
