"""Fixtures that the tests share: a client with a cluster of its own, and a deadline for every test.

SPDX-License-Identifier: Apache-2.0
"""

import faulthandler
import os

import pytest

import tug

faulthandler.enable()


def pytest_sessionfinish(session, exitstatus):
    """Makes the run of a file that skips itself as a whole a success; pytest's exit code for it is "no tests
    collected"."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.pluginmanager.get_plugin(
            "terminalreporter").stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(autouse=True)
def deadline():
    """Ends a test that hangs for 100 seconds, and prints where each thread is; ctest ends processes that are left."""
    faulthandler.dump_traceback_later(100, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def client():
    with tug.local(2, wait_seconds=60) as c:
        yield c


@pytest.fixture(scope="session")
def source():
    """The root of the repository."""
    return os.environ.get("TUG_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


@pytest.fixture
def program():
    from tug import fleet as fluid
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        yield
        fluid.Executor().close()
