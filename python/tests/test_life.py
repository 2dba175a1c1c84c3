"""Closing, dropping, forking, threads and leaks: no call crashes, and nothing is left behind.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest

import tug
from tug import _arrays, _library

KEYS = np.arange(50, dtype=np.uint64)


def test_library_stays():
    # The library must stay mapped: threads of a client that could not be closed run its code until the process ends.
    program = ("import _ctypes, ctypes, sys; _ctypes.dlclose(ctypes.CDLL(sys.argv[1])._handle); "
               "print('libtug' in open('/proc/self/maps').read())")
    done = subprocess.run([sys.executable, "-c", program, _library.PATH], capture_output=True, text=True, timeout=60,
                          check=True)
    assert done.stdout == "True\n"


def test_use_after_close():
    client = tug.local()
    table = client.table("w", dim=4, rule="sum")
    dense = client.table("d", dim=4, rule="sum").dense({"x": 3})
    request = table.push_async(KEYS, np.ones((50, 4), np.float32))
    communicator = client.communicator([table])
    client.close()
    client.close()
    assert client.closed and "closed" in repr(client)
    for call in (lambda: table.pull(KEYS), lambda: table.push(KEYS, np.ones((50, 4))), table.stat, dense.pull,
                 client.barrier, lambda: client.rank, lambda: client.table("v"), lambda: client.find("w"),
                 lambda: communicator.send(table, KEYS, np.ones((50, 4))), communicator.flush, request.wait,
                 lambda: client.save("x")):
        with pytest.raises(tug.ClosedError, match="closed"):
            call()
    del dense, request, communicator, table
    gc.collect()


def test_what_belongs_to_a_process_is_not_copied():
    with tug.local() as client:
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="^a client cannot be copied or pickled: open one in the process"):
                way(client)


def test_context_manager_keeps_the_first_error():
    with pytest.raises(KeyError):
        with tug.local() as client:
            client.table("w", dim=1)
            raise KeyError("mine")
    assert client.closed


def test_closing_ends_waits_of_other_threads():
    client = tug.local(wait_seconds=50)
    table = client.table("w", dim=1, mode="ssp:0")
    heard = []

    def work():
        try:
            table.tick(0)
            table.tick(7)
            other = client.communicator([table], queue=1)
            other.send(table, [1], [[1]])
            heard.append("waits")
            other.send(table, [1], [[1]])  # waits, because the queue is full and the communicator was not started
        except tug.Error as error:
            heard.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while "waits" not in heard:
        time.sleep(0.01)
    time.sleep(0.2)
    begin = time.monotonic()
    with pytest.raises(tug.UsageError, match="was not started"):
        client.close()  # raises an error for the push that could not be sent
    thread.join(60)
    assert time.monotonic() - begin < 40 and isinstance(heard[-1], tug.ClosedError)


def test_threads_share_a_client():
    with tug.local(2) as client:
        table = client.table("w", dim=4, rule="sum")
        failed = []

        def work():
            try:
                for _ in range(200):
                    table.push(KEYS, np.ones((50, 4), np.float32))
                    table.pull_async(KEYS).wait()
            except BaseException as error:  # noqa: B902
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failed
        np.testing.assert_array_equal(table.pull(KEYS), np.full((50, 4), 800))


def test_arrays_live_as_long_as_the_library_uses_them():
    with tug.local() as client:
        table = client.table("w", dim=64, rule="sum")
        keys = np.arange(20000, dtype=np.uint64)
        for i in range(20):  # the program keeps neither arrays nor requests, and freed memory is reused
            table.push_async(keys.copy(), np.full((20000, 64), i, np.float32))
            table.pull_async(keys.copy())
        client.flush()
        assert not client._flights and not client._dropped
        assert np.all(table.pull(keys) == sum(range(20)))
        arrays = [keys.copy(), np.ones((20000, 64), np.float32)]
        alive = [weakref.ref(a) for a in arrays]
        request = table.push_async(*arrays)
        del arrays
        gc.collect()
        assert all(ref() is not None for ref in alive)
        request.wait()
        assert all(ref() is None for ref in alive)


def test_results_come_again_and_errors_do():
    with tug.local() as client:
        table = client.table("w", dim=2, rule="sum")
        request = table.pull_async([1])
        assert request.wait() is request.wait() and request.done and "done" in repr(request)
        cancelled = table.push_async([1], [[1, 1]])
        cancelled.cancel()
        for _ in range(2):
            with pytest.raises(tug.Error, match="a push to table 0 was cancelled"):
                cancelled.wait()
        cancelled.cancel()
        dropped = client.table("gone", dim=2, rule="sum")
        client.find("gone").drop()
        with pytest.raises(tug.Error, match="table"):
            dropped.push([1], [[1, 1]])


def test_a_client_that_is_forgotten_leaves_with_a_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tug.local()
        gc.collect()
    assert any("was not closed" in str(w.message) for w in caught)


def test_callbacks_of_the_program():
    """A callback of the library, called while a thread waits in it, may send requests; the library refuses calls that
    wait."""
    with tug.local() as client:
        table = client.table("w", dim=1, rule="sum")
        heard = []

        def done(_context, _timestamp, status):
            with _library.callback_of_program():
                heard.append(status)
                heard.append(table.push_async([2], [[1]]))
                with pytest.raises(tug.UsageError, match="callback must not wait"):
                    table.client.barrier()

        callback = _library.ffi.callback("tug_done_fn", done)
        keys, values = np.array([1], np.uint64), np.ones((1, 1), np.float32)
        client._run(_library.lib.tug_push, table.number, _arrays.of_keys(keys), 1, _arrays.of_floats(values), callback,
                   _library.ffi.NULL, _library.ffi.NULL)
        end = time.monotonic() + 30
        while len(heard) < 2 and time.monotonic() < end:
            table.pull([1])
        assert heard[0] == 0 and heard[1].wait() is None
        np.testing.assert_array_equal(table.pull([1, 2]), [[1], [1]])


def in_a_child(function):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException as error:  # noqa: B902
            print(f"in the child: {error!r}", file=sys.stderr)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_fork():
    client = tug.local()
    table = client.table("w", dim=1, rule="sum")
    table.push([1], [[5]])
    request = table.pull_async([1])

    def child():
        for call in (lambda: table.pull([1]), client.barrier, request.wait):
            with pytest.raises(tug.ForkedError, match=f"belongs to process {os.getppid()}"):
                call()
        client.close() # does nothing
        with tug.local() as own:
            own.table("w", dim=1, rule="sum").push([1], [[1]])

    in_a_child(child)
    assert request.wait()[0, 0] == 5 and table.pull([1])[0, 0] == 5
    client.close()


def test_nothing_leaks():
    with tug.local() as client:
        table = client.table("w", dim=4, rule="sum")
        values = np.ones((50, 4), np.float32)
        out = np.empty((50, 4), np.float32)

        def some(n):
            for _ in range(n):
                table.push(KEYS, values)
                table.pull(KEYS, out=out)
                table.pull(KEYS)
                table.push_pull_async(KEYS, values).wait()
                table.pull_async(KEYS)
                with pytest.raises(tug.UsageError):
                    table.push(KEYS, values[:1])
                with pytest.raises(tug.UsageError):
                    table.push([1], [[np.nan] * 4])
                table.stat()
            client.flush()

        some(50)
        gc.collect()
        references = [sys.getrefcount(a) for a in (KEYS, values, out, client, table)]
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        some(300)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert [sys.getrefcount(a) for a in (KEYS, values, out, client, table)] == references
        assert grown < 20000, f"{grown} bytes more after 300 rounds"


def test_clients_do_not_leak():
    def threads_and_descriptors():
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    def one():
        with tug.local(2) as client:
            client.table("w", dim=4).pull(KEYS)

    one()
    before = threads_and_descriptors()
    for _ in range(10):
        one()
    assert threads_and_descriptors() <= before


def test_a_dropped_push_that_fails_fails_the_program():
    """If a dropped push fails, the exit code is 1, whether the client was closed or not."""
    script = """
import tug
from tug._library import lib
client = tug.local()
table = client.table("w", dim=4)
if {drops}:  # as another worker would, without the knowledge of this Table object
    client._run(lib.tug_table_drop, table.number)
table.push_async([1], [[1] * 4])
print("done", flush=True)
{ends}
"""
    for drops, ends, code in ((True, "", 1), (True, "client.close()", 1), (False, "", 0)):
        run = subprocess.run([sys.executable, "-c", script.format(drops=drops, ends=ends)],
                             capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == code and run.stdout == "done\n", run.stderr
        assert ("make the table first" in run.stderr) == drops
