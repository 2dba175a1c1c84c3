"""Scorers (tug/score.h): saved models that predict from many threads at once, and can load newer saves meanwhile.

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
NUMBERED = ("libsvm", "libffm")  # formats whose features are numbers; those of other formats are hashed words


class ScorerStatus(NamedTuple):
    """The save that a scorer serves, and its counts (struct tug_scorer_status)."""

    save: int # the number of the save
    is_delta: bool
    step: int # the number of batches that the model was trained on
    rows: int # the number of features
    taken: int  # the number of saves that were loaded, with the first one
    refused: int # the number of newer saves that could not be loaded
    refusal: str  # why the newest save was refused; "": it is the save that is served


class Scorer(OwnedHandle):
    """A saved model for programs that answer requests. Predictions are bit-identical to those of Model.predict, and
    threads that predict do not wait for each other.

        scorer = tug.Scorer("model", follow=True)
        probabilities = scorer.predict(rows)

    path: a directory that `tug train --out` or Model.save wrote, or one save in it (which cannot be followed). follow:
    load new saves as they are published; each call uses only one save. wait_seconds: how long to wait for the first
    save; 0: a save must exist. poll_ms: the interval in milliseconds in which the directory is checked; 0: 200.
    threads: the number of threads that load a save; 0: one per core, at most 8. At most 512 threads can predict at
    once. Raises DataError if there is no save, or it is damaged or not of a model."""

    def __init__(self, path: Path, *, follow: bool = False, wait_seconds: float = 0, poll_ms: int = 0,
                 threads: int = 0) -> None:
        c = ffi.new("struct tug_scorer_options *")
        c.follow = follow
        c.wait_seconds = seconds(wait_seconds, "wait_seconds")
        c.poll_ms = whole(poll_ms, "poll_ms", 0, 2 ** 32 - 1)
        c.threads = whole(threads, "threads", 0, THREADS_MAX)
        s = opened(lib.tug_scorer_open, lib.tug_scorer_close, word(path, "path"), c)
        super().__init__("scorer", s, lib.tug_scorer_close)
        self.format: str = text_of(lib.tug_scorer_format(s))  # the format of the training data
        self.labels: List[str] = [text_of(lib.tug_scorer_label(s, i)) for i in range(lib.tug_scorer_labels(s))]

    def predict(self, data: Any, *, raw: bool = False) -> Floats:
        """Returns a prediction for each row, as a new float32 array of shape (n,), or (n, labels) with several labels.
        raw: return scores. data: a numpy matrix, a sparse one of scipy, or Rows; a data frame, if the model was trained
        on csv or frames; or a text (str or bytes) in the format of the training data, with a prediction for each line
        that is not empty. csv text needs a header, by which columns are found; labels are not needed. Raises UsageError
        if the data does not fit the model, and DataError, which names the line."""
        return self._predict(data, raw)[0]

    def predict_with_save(self, data: Any, *, raw: bool = False) -> Tuple[Floats, int]:
        """Returns the predictions, like predict(), and the number of the save that made all of them."""
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
        warn_after_call()
        return ret if len(self.labels) == 1 else ret.reshape(-1, len(self.labels)), int(save[0])

    def _check_keys(self, data: Any) -> None:
        """Raises UsageError for a matrix if the model's features are hashed words: a matrix has column numbers as keys,
        which such a model does not know."""
        if not isinstance(data, Rows) and self.format not in NUMBERED:
            raise UsageError(f"data: the model was trained on {self.format} data, whose features are words, but a "
                             "matrix has only column numbers: give a data frame, text, or Rows with the keys of "
                             "feature()")

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
        """Returns the key and the field of a feature, given by its name "COLUMN=WORD". Raises UsageError if there is no
        such column, or the training data had no names."""
        key, field = ffi.new("uint64_t *"), ffi.new("uint32_t *")
        self._run(lib.tug_scorer_feature, word(name, "name"), key, field)
        return int(key[0]), int(field[0])

    def refresh(self) -> bool:
        """Loads a newer save if there is one, for a scorer without follow. Returns whether it did. If a newer save is
        refused, a warning is issued, and status has the reason."""
        taken = ffi.new("bool *")
        self._run(lib.tug_scorer_refresh, taken)
        return bool(taken[0])

    @property
    def status(self) -> ScorerStatus:
        """The save in use, and why the newest save was refused, if it was."""
        c = ffi.new("struct tug_scorer_status *")
        self._status_of(lambda s: (lib.tug_scorer_status(s, c), 0)[1])
        return ScorerStatus(c.save, bool(c.is_delta), c.step, c.rows, c.taken, c.refused, text_of(c.refusal))
