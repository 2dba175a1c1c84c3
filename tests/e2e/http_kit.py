"""Starts processes with --http and asks them, for tests.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse

TUG = os.environ["TUG_BINARY"]
PATIENCE = 60


def expect(fact, what):
    if not fact:
        sys.exit(f"http: {what}")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def get(url, path, headers=None, context=None):
    """Returns the status and the text of an answer; `context` is an ssl.SSLContext, for https."""
    if url.startswith("unix:"):
        link = UnixConnection(url[5:])
    elif url.startswith("https:"):
        link = http.client.HTTPSConnection(urllib.parse.urlsplit(url).netloc, timeout=PATIENCE, context=context)
    else:
        link = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=PATIENCE)
    link.request("GET", path, headers=headers or {})
    answer = link.getresponse()
    text = answer.read().decode()
    link.close()
    return answer.status, text


def await_line(path, pattern):
    """Returns the group of the pattern once a line of the file matches it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with open(path, encoding="utf-8") as file:
            found = re.search(pattern, file.read(), re.M)
        if found:
            return found.group(1)
        time.sleep(0.02)
    with open(path, encoding="utf-8") as file:
        sys.exit(f"http: no line is like {pattern}, but {path} has: {file.read()}")


def await_status(url, path, status):
    end = time.monotonic() + PATIENCE
    while (last := get(url, path))[0] != status:
        expect(time.monotonic() < end, f"{path} is never {status}, but {last}")
        time.sleep(0.05)
    return last[1]


@contextlib.contextmanager
def started(name, *words):
    with open(f"{name}.err", "w", encoding="utf-8") as to:
        process = subprocess.Popen([TUG, *words], stdout=to, stderr=to)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def tug(*words):
    run = subprocess.run([TUG, *words], capture_output=True, text=True)
    expect(run.returncode == 0, f"tug {words} ended with {run.returncode}: {run.stderr}")
    return run.stdout


def targets(path):
    """Returns the content of a file of targets; None if the file does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
