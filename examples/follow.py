"""A model that is served while it is trained: `tug train` runs beside, and each save that it publishes
changes the predictions of the threads that answer here.

    python3 follow.py

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
import tempfile
import threading

import numpy as np

import tug

TUG = os.environ.get("TUG_BINARY", "tug")
PASSES = 5


def answer(scorer, requests, stop, seen):
    """A thread of a service: each request is scored by one save, whichever is the newest."""
    while not stop.is_set():
        predictions, save = scorer.predict_with_save(requests)
        seen[save] = float(np.mean(predictions))


def main():
    with tempfile.TemporaryDirectory() as folder:
        data, model = os.path.join(folder, "day.txt"), os.path.join(folder, "model")
        subprocess.run([TUG, "synth", "--rows", "20000", "--format", "libsvm", "--out", data], check=True)
        with open(data, encoding="ascii") as file:
            requests = "".join(line for line, _ in zip(file, range(200)))
        training = subprocess.Popen([TUG, "train", "--data", data, "--format", "libsvm", "--model", "fm", "--epochs",
                                     str(PASSES), "--save-every", "1", "--out", model, "--quiet"])
        stop, seen = threading.Event(), {}
        with tug.Scorer(model, follow=True, wait=60) as scorer:
            threads = [threading.Thread(target=answer, args=(scorer, requests, stop, seen)) for _ in range(2)]
            for thread in threads:
                thread.start()
            assert training.wait() == 0
            while scorer.status.save < PASSES:  # within a second of the last one
                stop.wait(0.05)
            last = scorer.predict(requests)
            stop.set()
            for thread in threads:
                thread.join()
        with tug.load(model) as offline:
            print("the same as tug predict:", np.array_equal(last, offline.predict(data)[:200]))
        print(f"served saves up to {max(seen)} of {PASSES}")


main()
