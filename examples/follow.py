"""Serves a model while it is trained: `tug train --publish` runs as another process, and the threads here predict with
each save that it publishes.

    python3 examples/follow.py

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
import tempfile
import threading

import numpy as np

import tug

TUG = os.environ.get("TUG_BINARY", "tug")


def answer(scorer, requests, stop, seen):
    """Runs as a thread of a service: predicts repeatedly, and records the mean prediction of each save. All requests of
    a call are scored by the same save, the newest one."""
    while not stop.is_set():
        predictions, save = scorer.predict_with_save(requests)
        seen[save] = float(np.mean(predictions))


def main():
    with tempfile.TemporaryDirectory() as folder:
        data, model, served = (os.path.join(folder, name) for name in ("day.txt", "model", "served"))
        subprocess.run([TUG, "synth", "--rows", "50000", "--format", "libsvm", "--out", data], check=True)
        with open(data, encoding="ascii") as file:
            requests = "".join(line for line, _ in zip(file, range(200)))
        training = subprocess.Popen([TUG, "train", "--data", data, "--format", "libsvm", "--model", "fm", "--epochs",
                                     "8", "--publish", served, "--publish-every", "0.1", "--out", model, "--quiet"])
        stop, seen = threading.Event(), {}
        with tug.Scorer(served, follow=True, wait_seconds=60) as scorer:
            threads = [threading.Thread(target=answer, args=(scorer, requests, stop, seen)) for _ in range(2)]
            for thread in threads:
                thread.start()
            assert training.wait() == 0
            with tug.load(model) as offline:
                last = offline.predict(data)[:200]
            while not np.array_equal(scorer.predict(requests), last):  # within a second of the last delta
                stop.wait(0.05)
            stop.set()
            for thread in threads:
                thread.join()
            print(f"served {len(seen)} saves of {scorer.status.step} batches; the last one is",
                  "a delta," if scorer.status.is_delta else "a base,", "and the same as tug predict")


main()
