"""Asks real processes that listen off loopback, over TLS: a client that shows the token gets all facts, and other
clients learn only whether the process lives and is ready. Wrong and long tokens, foreign names, plain HTTP, old
versions of TLS, and handshakes that are begun and not ended do no harm. http_tls_test.sh runs this file.

SPDX-License-Identifier: Apache-2.0
"""

import base64
import contextlib
import http.client
import json
import os
import re
import resource
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.parse

from browser import Browser, missing
from http_kit import PATIENCE, await_line, expect, get, started, targets, tug

PAGE = r"http: the page of this process is at (\S+)"
TOKEN = secrets.token_hex(32)
BEARER = {"Authorization": f"Bearer {TOKEN}"}
KEYS = ("--http-cert", "keys/web.pem", "--http-key", "keys/web.key", "--http-token-file", "token")
HALF_OPEN = 1000


def make_keys():
    tug("cert", "ca", "--dir", "keys")
    tug("cert", "node", "--dir", "keys", "--name", "web", "--host", "localhost", "127.0.0.1", "node7.example")
    with open("token", "w", opener=lambda path, flags: os.open(path, flags, 0o600), encoding="utf-8") as file:
        file.write(TOKEN + "\n")
    return ssl.create_default_context(cafile="keys/ca.pem")


def reached(url):
    """The URL of a process that listens at 0.0.0.0, by which this machine reaches it."""
    expect(url.startswith("https://0.0.0.0:"), f"{url} is not the URL")
    return url.replace("0.0.0.0", "127.0.0.1")


def check_tokens(url, context):
    basic = base64.b64encode(f"any:{TOKEN}".encode()).decode()
    bad = ["", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Bearer {'a' * 8000}", f"Basic {'a' * 8000}",
           f"Basic {base64.b64encode(TOKEN.encode()).decode()}", f"Bearer {TOKEN[::-1]}"]
    for path in "/", "/metrics", "/status.json", "/events", "/nothing":
        status, text = get(url, path, context=context)
        expect(status == 401 and "the token is missing or wrong" in text, f"{path} without a token: {status} {text}")
    for shown in bad:
        status, text = get(url, "/metrics", {"Authorization": shown}, context)
        expect(status == 401 and "tug_" not in text, f"'{shown[:80]}' gets {status}")
    for shown in f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Basic {basic}":
        status, text = get(url, "/metrics", {"Authorization": shown}, context)
        expect(status == 200 and "tug_info{" in text, f"'{shown[:10]}' gets {status} {text}")
    expect(get(url, "/healthz", context=context) == (200, "alive\n"), "a probe of health needs a token")
    expect(get(url, "/readyz", context=context)[1] in ("ready\n", "not ready\n"), "a stranger learns why")
    status, text = get(url, "/?token=" + TOKEN, context=context)
    expect(status == 401, "a token in the URL is taken, although logs have URLs")


def check_names(url, context):
    """The names of the certificate, and no other name, are those of the process."""
    port = urllib.parse.urlsplit(url).port
    for host, wanted in (("node7.example", 200), (f"node7.example:{port}", 200), ("localhost", 200), ("0.0.0.0", 200),
                         ("evil.example", 421), ("node7.example.evil", 421), ("web", 421), ("10.9.8.7", 421)):
        status, _ = get(url, "/", {**BEARER, "Host": host}, context)
        expect(status == wanted, f"a request to {host} gets {status}")


def check_protocols(url):
    where = (urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(url).port)
    link = http.client.HTTPConnection(*where, timeout=PATIENCE)
    with contextlib.suppress(http.client.HTTPException, OSError):
        link.request("GET", "/metrics", headers=BEARER)
        expect(False, f"plain HTTP gets {link.getresponse().status}")
    old = ssl.create_default_context(cafile="keys/ca.pem")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(where, PATIENCE) as link, contextlib.suppress(OSError):
        old.wrap_socket(link, server_hostname="localhost")
        expect(False, "TLS 1.2 is spoken")
    foreign = ssl.create_default_context()
    with socket.create_connection(where, PATIENCE) as link, contextlib.suppress(ssl.SSLCertVerificationError):
        foreign.wrap_socket(link, server_hostname="localhost")
        expect(False, "the certificate is one that every client trusts")


def first_bytes():
    """The first message of a handshake."""
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    return sent.read()


def check_half_open(url, context):
    """Handshakes that stop at some byte do not keep other clients out."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    hello = first_bytes()
    where = (urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(url).port)
    with contextlib.ExitStack() as stack:
        for i in range(HALF_OPEN):
            link = stack.enter_context(socket.create_connection(where, PATIENCE))
            with contextlib.suppress(OSError):
                link.sendall(hello[:i % (len(hello) + 1)])
            if i % 100 == 0:
                expect(get(url, "/metrics", BEARER, context)[0] == 200, f"{i} handshakes keep others out")
        expect(get(url, "/metrics", BEARER, context)[0] == 200, f"{HALF_OPEN} handshakes keep others out")
        slow = stack.enter_context(socket.create_connection(where, PATIENCE))
        with contextlib.suppress(OSError):
            for byte in hello[:50]:  # byte by byte
                slow.sendall(bytes([byte]))
        expect(get(url, "/healthz", context=context)[0] == 200, "a slow handshake keeps others out")


def check_curl(url):
    if not shutil.which("curl"):
        return
    with open("header", "w", encoding="utf-8") as file:
        file.write(f"Authorization: Bearer {TOKEN}\n")
    words = ["curl", "-sS", "--noproxy", "*", "--cacert", "keys/ca.pem"]
    run = subprocess.run([*words, "-H", "@header", url + "metrics"], capture_output=True, text=True)
    expect(run.returncode == 0 and "tug_info{" in run.stdout, f"curl: {run.stderr}")
    run = subprocess.run([*words, "-o", "/dev/null", "-w", "%{http_code}", url + "metrics"], capture_output=True, text=True)
    expect(run.stdout == "401", f"curl without the token: {run.stdout}{run.stderr}")


def check_browser(url):
    """A browser that was given the token once also sends it when it asks for events."""
    if missing():
        return
    with Browser(os.getcwd(), "--ignore-certificate-errors") as browser:
        browser.open(url.replace("https://", f"https://any:{TOKEN}@"), 1280, False)
        end = time.monotonic() + PATIENCE
        while not browser.run("return document.getElementById('fresh')?.textContent.startsWith('at ')"):
            expect(time.monotonic() < end, "no event comes in the browser")
            time.sleep(0.05)


def check_train(context):
    with started("train", "train", "--data", "day.txt", "--format", "criteo", "--epochs", "100000", "--http", "0.0.0.0:0",
                 *KEYS):
        url = reached(await_line("train.err", PAGE))
        for check in check_tokens, check_names, check_half_open:
            check(url, context)
        check_protocols(url)
        check_curl(url)
        check_browser(url)


def check_launch(context):
    """Each process of a run has the certificate and the token of launch; the file of targets says https."""
    with started("launch", "launch", "--cluster", "http-tls-test", "--servers", "1", "--workers", "1", "--http", "0.0.0.0:0",
                 *KEYS, "--http-targets", "targets.json", "--", "train", "--data", "day.txt", "--format", "criteo", "--epochs",
                 "100000") as process:
        end = time.monotonic() + PATIENCE
        while len(targets("targets.json") or []) < 4:
            expect(time.monotonic() < end and process.poll() is None, "the targets do not come")
            time.sleep(0.02)
        for target in targets("targets.json"):
            expect(target["labels"]["__scheme__"] == "https", f"the scheme is wrong: {target}")
            url = f"https://{target['targets'][0]}/"
            await_line("launch.err", f"http: the page of (?:this process|the launched processes) is at ({re.escape(url)})")
            expect(get(reached(url), "/metrics", BEARER, context)[0] == 200, f"{target} does not answer")
            expect(get(reached(url), "/metrics", context=context)[0] == 401, f"{target} answers strangers")


def check_scheduler(context):
    """A node off loopback uses the cluster's own certificate, if it has no other for --http."""
    with started("scheduler", "scheduler", "--servers", "1", "--workers", "0", "--ca", "keys/ca.pem", "--cert",
                 "keys/web.pem", "--key", "keys/web.key", "--http", "0.0.0.0:0", "--http-token-file", "token"):
        url = reached(await_line("scheduler.err", PAGE))
        expect(json.loads(get(url, "/status.json", BEARER, context)[1])["role"] == "scheduler", "wrong role")
        expect(get(url, "/readyz", context=context) == (503, "not ready\n"), "a stranger learns why it is not ready")
        expect("0 of 1 server" in get(url, "/readyz", BEARER, context)[1], "the reason is missing")


def main():
    context = make_keys()
    tug("synth", "--rows", "2000", "--out", "day.txt")
    check_train(context)
    check_launch(context)
    check_scheduler(context)


main()
