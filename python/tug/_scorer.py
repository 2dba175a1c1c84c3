"""Scorers: saved models that score from many threads and load newer saves (tug/score.h).

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, List, NamedTuple, Tuple

import numpy as np

from tug._abi import ffi
from tug._arrays import Floats, Path, of_floats, seconds, whole, word
from tug._errors import ArgumentTypeError, UsageError
from tug._examples import Examples, Rows, paths_of, rows_of
from tug._frames import is_frame, length
from tug._library import OwnedHandle, lib, opened, text_of, warn_after_call

THREADS_MAX = 1023
NUMBERED = ("libsvm", "libffm")  # formats whose features are numbers, and not words


class ScorerStatus(NamedTuple):
    """The save that a scorer serves (struct tug_scorer_status)."""

    save: int  # number of the save
    is_delta: bool
    step: int  # batches of its training
    rows: int  # of features
    taken: int  # saves, the first one included
    refused: int
    refusal: str  # of the newest save; "": it is the one that is served


class Scorer(OwnedHandle):
    """A saved model for programs that answer requests: predictions equal to
    Model.predict's, bit for bit, from any number of threads at the same time, which wait for nobody.

        scorer = tug.Scorer("model", follow=True)
        probabilities = scorer.predict(rows)

    path: what `tug train --out` or Model.save wrote, or one save in it (which cannot be followed). follow: new
    saves are served as they are published; a call sees one save. wait_seconds: in which the first save may come; 0:
    there has to be one. poll_ms: how often the directory is looked at; 0: 200. threads: that load saves; 0: one per
    core, at most 8. At most 512 threads predict at once. DataError: there is no save, or it is damaged, or is of no
    model."""

    def __init__(self, path: Path, *, follow: bool = False, wait_seconds: float = 0, poll_ms: int = 0,
                 threads: int = 0) -> None:
        c = ffi.new("struct tug_scorer_options *")
        c.follow = follow
        c.wait_seconds = seconds(wait_seconds, "wait_seconds")
        c.poll_ms = whole(poll_ms, "poll_ms", 0, 2 ** 32 - 1)
        c.threads = whole(threads, "threads", 0, THREADS_MAX)
        s = opened(lib.tug_scorer_open, lib.tug_scorer_close, word(path, "path"), c)
        super().__init__("scorer", s, lib.tug_scorer_close)
        self.format: str = text_of(lib.tug_scorer_format(s))  # of the data that the model learnt from
        self.labels: List[str] = [text_of(lib.tug_scorer_label(s, i)) for i in range(lib.tug_scorer_labels(s))]

    def predict(self, data: Any, *, raw: bool = False) -> Floats:
        """Returns a prediction for each row of a numpy matrix, a sparse one of scipy, or Rows, or of a data frame, if
        the model learnt from csv or frames: a new float32 array of shape (n,), of several labels (n, labels); raw:
        scores. Or for each line of a text (str or bytes) in the format of the data that the model learnt from: csv
        with a header, whose columns are found by their names; labels are not needed, and empty lines are passed over.
        UsageError: the rows do not fit the model; DataError names the line."""
        return self._predict(data, raw)[0]

    def predict_with_save(self, data: Any, *, raw: bool = False) -> Tuple[Floats, int]:
        """Like predict; also returns the number of the save that made all of the predictions."""
        return self._predict(data, raw)

    def _predict(self, data: Any, raw: bool) -> Tuple[Floats, int]:
        save = ffi.new("uint32_t *")
        if isinstance(data, (str, bytes, bytearray)):
            ret = self._predict_text(data.encode() if isinstance(data, str) else bytes(data), raw, save)
        elif is_frame(data):
            ret = self._predict_frame(data, raw, save)
        else:
            if paths_of(data) is not None:
                raise ArgumentTypeError("data: files are for tug.load and Model.predict; a scorer takes rows, or text")
            self._check_keys(data)
            examples = Examples(rows := rows_of(data), None)
            ret = np.empty(len(rows) * len(self.labels), np.float32)
            self._run(lib.tug_scorer_predict, examples.c.rows, raw, of_floats(ret, written=True), ret.size, save)
            del examples
        warn_after_call(3)
        return ret if len(self.labels) == 1 else ret.reshape(-1, len(self.labels)), int(save[0])

    def _check_keys(self, data: Any) -> None:
        """Refuses a matrix for a model of hashed words: a matrix has column numbers as keys, which such a model
        lacks."""
        if not isinstance(data, Rows) and self.format not in NUMBERED:
            raise UsageError(f"data: the model learnt from {self.format} data, whose features are words, and a matrix "
                             "has numbers of columns: give a data frame, text, or Rows with the keys of feature()")

    def _predict_text(self, text: bytes, raw: bool, save: Any) -> Floats:
        ret: Floats = np.empty((text.count(b"\n") + 1) * len(self.labels), np.float32)
        n = ffi.new("size_t *")
        self._run(lib.tug_scorer_predict_text, ffi.from_buffer(text), len(text), raw, of_floats(ret, written=True),
                  ret.size, n, save)
        return ret[:n[0]]

    def _predict_frame(self, data: Any, raw: bool, save: Any) -> Floats:
        ret: Floats = np.empty(length(data) * len(self.labels), np.float32)
        examples, found = Examples(data, None), ffi.new("size_t *")
        self._run(lib.tug_scorer_predict_columns, examples.c.columns, raw, of_floats(ret, written=True), ret.size,
                  found, save)
        del examples
        return ret

    def feature(self, name: str) -> Tuple[int, int]:
        """Returns the key of a feature by its name, "COLUMN=WORD", and its field. UsageError: there is no such
        column, or the
        model learnt from data without names."""
        key, field = ffi.new("uint64_t *"), ffi.new("uint32_t *")
        self._run(lib.tug_scorer_feature, word(name, "name"), key, field)
        return int(key[0]), int(field[0])

    def refresh(self) -> bool:
        """Loads a newer save, if there is one, in a scorer that does not follow. Returns whether it did; one that is
        refused is a warning, and status says why."""
        taken = ffi.new("bool *")
        self._run(lib.tug_scorer_refresh, taken)
        return bool(taken[0])

    @property
    def status(self) -> ScorerStatus:
        """Returns the status: the save in use, and the newest one that was refused."""
        c = ffi.new("struct tug_scorer_status *")
        self._status_of(lambda s: (lib.tug_scorer_status(s, c), 0)[1])
        return ScorerStatus(c.save, bool(c.is_delta), c.step, c.rows, c.taken, c.refused, text_of(c.refusal))
