"""Ctrl-C and other signals end every wait soon, and all objects stay usable.

SPDX-License-Identifier: Apache-2.0
"""

import os
import signal
import threading
import time

import numpy as np
import pytest

import tug

SOON = 0.3  # the time in seconds until the signal is sent


class Signal:
    """Sends a signal to this process after SOON seconds, and checks that the call in the block ends soon afterwards."""

    def __init__(self, number=signal.SIGINT):
        self.number = number

    def __enter__(self):
        self.timer = threading.Timer(SOON, os.kill, (os.getpid(), self.number))
        self.begin = time.monotonic()
        self.timer.start()

    def __exit__(self, *_):
        self.timer.join()
        assert SOON <= time.monotonic() - self.begin < SOON + 30  # less than the 60 s that the wait would take


@pytest.fixture
def waits():
    """A table of mode ssp with two workers. The second worker stays at its first clock, so that pulls of the first
    worker wait."""
    with tug.launch(servers=1, workers=2, wait_seconds=60) as cluster:
        other = []
        thread = threading.Thread(target=lambda: other.append(cluster.connect()))
        thread.start()
        client = cluster.connect()
        thread.join()
        mine = client.table("w", dim=2, mode="ssp:0")
        theirs = other[0].table("w", dim=2, mode="ssp:0")
        theirs.tick(0)
        mine.tick(0)
        mine.tick(5)
        yield client, mine, other[0], theirs


def test_requests(waits):
    client, table, _, theirs = waits
    with pytest.raises(KeyboardInterrupt), Signal():
        table.pull([1])
    assert not client._flights
    request = table.pull_async([1, 2])
    with pytest.raises(KeyboardInterrupt), Signal():
        request.wait()
    with pytest.raises(tug.Timeout):
        request.wait(0.2)
    with pytest.raises(TimeoutError):
        request.wait(0)
    assert not request.done
    theirs.finish()
    np.testing.assert_array_equal(request.wait(), np.zeros((2, 2)))


def test_barriers_and_flushes(waits):
    client, table, other, theirs = waits
    with pytest.raises(KeyboardInterrupt), Signal():
        client.barrier()
    communicator = client.communicator([table], queue=1)
    communicator.send(table, [1], [[1, 1]])
    with pytest.raises(KeyboardInterrupt), Signal():
        communicator.send(table, [1], [[1, 1]])
    communicator.start()
    communicator.close()
    theirs.finish()
    assert table.stat().pushes == 1
    other.barrier()  # both workers have called it


def test_another_signal_raises_what_its_handler_does(waits):
    _, table, _, theirs = waits

    class Late(Exception):
        pass

    def handler(number, frame):
        with pytest.raises(tug.UsageError, match="a signal handler used a client"):
            table.stat()
        raise Late

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Late), Signal(signal.SIGALRM):
            table.pull([1])
    finally:
        signal.signal(signal.SIGALRM, before)
    before = signal.signal(signal.SIGALRM, lambda *_: None)  # a handler that does not raise, so that the wait continues
    try:
        with pytest.raises(KeyboardInterrupt), Signal():
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            table.pull([1])
    finally:
        signal.signal(signal.SIGALRM, before)
    theirs.finish()


def test_closing(waits):
    client, table, _, theirs = waits
    request = table.pull_async([1])
    with pytest.raises(KeyboardInterrupt), Signal():
        client.close()
    assert client.closed
    with pytest.raises(tug.ClosedError):
        request.wait()
    theirs.finish()


def test_opening_and_serving():
    with pytest.raises(KeyboardInterrupt), Signal():
        tug.connect("127.0.0.1:1", wait_seconds=60)
    with tug.launch(servers=1, workers=2, wait_seconds=60) as cluster:
        with pytest.raises(KeyboardInterrupt), Signal():
            cluster.connect()
    with pytest.raises(KeyboardInterrupt), Signal():
        tug.serve("server", scheduler="127.0.0.1:1", servers=1, workers=1, wait_seconds=60)


def test_waiting_for_a_save(tmp_path):
    with pytest.raises(KeyboardInterrupt), Signal():
        tug.Scorer(tmp_path, wait_seconds=60)
    tug.local().close()  # no second KeyboardInterrupt follows


@pytest.mark.parametrize("status", [0, -3])
def test_when_the_request_has_just_ended(monkeypatch, status):
    """Ctrl-C arrives between the return of the library's wait and Python's next instruction."""
    with tug.local() as client:
        table = client.table("w", dim=1, rule="sum")
        table.push([1], [[7]])
        request = table.pull_async([1])
        run = tug.Client._run

        def late(self, function, *args, statuses=None):
            run(self, function, *args, statuses=statuses)
            statuses[-1] = status
            raise KeyboardInterrupt

        monkeypatch.setattr(tug.Client, "_run", late)
        with pytest.raises(KeyboardInterrupt):
            request.wait()
        monkeypatch.undo()
        assert request.done and not client._flights
        if status == 0:
            assert request.wait()[0, 0] == 7
        else:
            with pytest.raises(tug.SystemFailure):
                request.wait()


def test_waiting_for_processes():
    with tug.launch(["sleep", "60"], servers=1) as cluster:
        with pytest.raises(KeyboardInterrupt), Signal():
            cluster.wait()
        with pytest.raises(tug.Timeout):
            cluster.wait(0.2)
    assert all(p.code is not None for p in cluster.processes)


def test_threads_are_not_interrupted():
    """Ctrl-C interrupts the main thread only."""
    with tug.local(wait_seconds=3) as client:
        table = client.table("w", dim=1)
        communicator = client.communicator([table], queue=1)
        communicator.send(table, [1], [[1]])
        heard = []

        def work():
            try:
                communicator.send(table, [1], [[1]], timeout=1.5)
            except tug.Error as error:
                heard.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        with pytest.raises(KeyboardInterrupt), Signal():
            time.sleep(5)
        thread.join()
        assert "has been full for 1.5 s" in str(heard[0])
        communicator.start()
