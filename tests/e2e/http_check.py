"""Asks a real cluster over HTTP: the facts equal `tug status --json`, the page has these numbers without scripts,
promtool accepts the metrics, and a server is ready only in a complete cluster. A headless Chromium
then opens the page in three widths, light and dark. http_test.sh runs this file.

SPDX-License-Identifier: Apache-2.0
"""

import html
import html.parser
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from browser import Browser, missing
from http_kit import PATIENCE, await_line, await_status, expect, get, started, targets, tug

TABLE = "name=users;accessor=ctr;dim=4;rule=sgd:lr=0.5;embedx-rule=adagrad-shared:lr=0.1;seed=7"
# Facts that differ from one moment to the next.
MOVING = {"unix_seconds", "uptime_seconds", "cpu_seconds", "resident_bytes", "open_files", "free_bytes", "requests",
          "memory", "seconds_since_sign", "clock_skew_seconds", "operations", "operations_seen", "nodes"}


def settled(facts):
    """Returns the facts without those that change from one moment to the next."""
    if isinstance(facts, dict):
        return {k: settled(v) for k, v in facts.items() if k not in MOVING}
    return [settled(x) for x in facts] if isinstance(facts, list) else facts


class Cells(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.texts, self._open = [], False

    def handle_starttag(self, tag, attrs):
        if tag == "td":
            self.texts.append("")
            self._open = True

    def handle_endtag(self, tag):
        self._open = self._open and tag != "td"

    def handle_data(self, data):
        if self._open:
            self.texts[-1] += data


def check_numbers(url, scheduler):
    told = json.loads(get(url, "/status.json")[1])
    said = json.loads(tug("status", "--json", "--scheduler", scheduler))
    expect(settled(told) == settled(said), f"status.json differs from tug status: {told} {said}")
    expect([n["pid"] for n in told["nodes"]] == [n["pid"] for n in said["nodes"]], "the nodes differ")
    cells = Cells()
    cells.feed(get(url, "/")[1])
    for table in said["tables"]:
        expect(table["name"] in cells.texts and f"{table['rows']:,}" in cells.texts, f"the page lacks {table}")
    for node in said["nodes"]:
        expect(node["address"] in cells.texts and str(node["pid"]) in cells.texts, f"the page lacks {node}")


def check_metrics(*urls):
    for url in urls:
        status, text = get(url, "/metrics")
        expect(status == 200 and "tug_info{" in text, f"{url} has no metrics")
        if shutil.which("promtool"):
            run = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            expect(run.returncode == 0 and not run.stderr, f"promtool: {run.stdout}{run.stderr}")
        else:
            print("skipped: promtool is not there: prometheus")


def check_in_browser(url):
    with Browser(os.getcwd()) as browser:
        for width in (400, 1280, 1920):
            for dark in (False, True):
                seen = browser.open(url, width, dark)
                where = f"{width} px, {'dark' if dark else 'light'}"
                end = time.monotonic() + PATIENCE
                while not browser.run("return document.getElementById('fresh').textContent.startsWith('at ')"):
                    expect(time.monotonic() < end, f"{where}: no event has come")
                    time.sleep(0.05)
                expect(seen["wide"] <= width, f"{where}: the page is {seen['wide']} px wide")
                expect(not seen["said"] and not browser.said(), f"{where}: the console says {seen['said']}")
                expect(seen["dark"] == dark, f"{where}: the colours are those of the other scheme")
                expect(browser.run("return document.getElementById('verdict').className") == "well", f"{where}: is ill")


def check_end_in_browser():
    """An open page shows how the run has ended after the run's process has ended."""
    train = ["train", "--data", "day.txt", "--format", "criteo", "--epochs", "100000"]
    launch = ["launch", "--cluster", "http-end", "--servers", "1", "--workers", "1", "--http", "127.0.0.1:0", "--", *train]
    for words, ends, color in (([*train, "--http", "127.0.0.1:0"], "the run was interrupted", "well"),
                               (launch, "the run has failed: server 0 ", "ill")):
        with started("ends", *words) as process, Browser(os.getcwd()) as browser:
            browser.open(await_line("ends.err", r"http: the page of this process is at (\S+)"), 1280, False)
            last = time.monotonic() + PATIENCE
            while not browser.run("return before && before.run && before.run.state === 'training'"):
                expect(time.monotonic() < last, "no facts of the training have come")
                time.sleep(0.05)
            if words is launch:
                os.kill(int(await_line("ends.err", r"server 0 \([^)]*:(\d+)\) joined")), signal.SIGKILL)
            else:
                process.terminate()
            process.wait(PATIENCE)
            while not (seen := browser.run("const v = document.getElementById('verdict'); return [v.textContent, v.className]")
                       )[0].startswith(ends) or seen[1] != color:
                expect(time.monotonic() < last, f"the page of a run that has ended says {seen}")
                time.sleep(0.05)


def check_workers(*urls):
    """Workers are ready once they have joined. The worker that has the only piece of the data reports what it does."""
    for url in urls:
        await_status(url, "/readyz", 200)
    end = time.monotonic() + PATIENCE
    while not (busy := [u for u in urls if json.loads(get(u, "/status.json")[1])["batches"]]):
        expect(time.monotonic() < end, "no worker does anything")
        time.sleep(0.02)
    url, told = busy[0], json.loads(get(busy[0], "/status.json")[1])
    expect(told["joined"] is True and told["rank"] == urls.index(url) and told["pass"] > 0, f"the worker tells {told}")
    expect(told["examples"] >= told["batches"] and told["compute_seconds"] > 0, f"the worker tells {told}")
    expect(told["read_seconds"] > 0 and told["sent_bytes"] > 0, f"the worker tells {told}")
    text = get(url, "/metrics")[1]
    expect(f'tug_worker_joined{{role="worker",rank="{told["rank"]}"}} 1' in text, f"the metrics are {text}")
    expect(re.search(r"^tug_worker_batches_total\{.*\} [1-9]", text, re.M), f"the metrics are {text}")


def check_processes(url):
    """The launcher lists its processes: a killed worker is listed as ended, and the run goes on without it."""
    await_status(url, "/readyz", 200)
    processes = {p["name"]: p for p in json.loads(get(url, "/status.json")[1])["processes"]}
    expect(set(processes) == {"scheduler", "server 0", "worker 0", "worker 1"}, f"the processes are {processes}")
    expect(all(p["state"] == "running" and p["restarts"] == 0 for p in processes.values()), f"{processes}")
    worker = processes["worker 1"]["pid"]
    os.kill(worker, signal.SIGSTOP)
    await_status(url, "/readyz", 503)
    expect(f"worker 1 (process {worker}) is stopped" in get(url, "/")[1], "the page does not say that worker 1 is stopped")
    text = get(url, "/metrics")[1]
    line = 'tug_launch_process_up{role="launch",process_role="worker",process_rank="1"} 0\n'
    expect(line in text, f"the metrics lack {line}: {text}")
    os.kill(worker, signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while json.loads(get(url, "/status.json")[1])["processes"][3]["state"] != "ended":
        expect(time.monotonic() < end, "worker 1 does not end")
        time.sleep(0.02)
    ended = json.loads(get(url, "/status.json")[1])["processes"][3]
    expect(ended["code"] == 137 and ended["signal"] == 9, f"worker 1 is {ended}")
    expect("worker 1 has ended with code 137" in get(url, "/")[1], "the page does not say that worker 1 has ended")
    text = get(url, "/metrics")[1]
    for rank, up in (("0", 1), ("1", 0)):
        line = f'tug_launch_process_up{{role="launch",process_role="worker",process_rank="{rank}"}} {up}\n'
        expect(line in text, f"the metrics lack {line}: {text}")


def check_launch():
    """Each process of a launched run has an address of its own; the file of targets lists it while the process runs."""
    tug("synth", "--rows", "2000", "--out", "day.txt")
    with started("launch", "launch", "--cluster", "http-test", "--servers", "1", "--workers", "2", "--http", "127.0.0.1:0",
                 "--http-targets", "targets.json", "--", "train", "--data", "day.txt", "--format", "criteo", "--epochs",
                 "100000") as process:
        end = time.monotonic() + PATIENCE
        while len(targets("targets.json") or []) < 5:
            expect(time.monotonic() < end and process.poll() is None, f"the targets are {targets('targets.json')}")
            time.sleep(0.02)
        names = {target["labels"]["process"]: f"http://{target['targets'][0]}/" for target in targets("targets.json")}
        expect(set(names) == {"launch", "scheduler", "server-0", "worker-0", "worker-1"}, f"the targets are {names}")
        await_status(names["scheduler"], "/readyz", 200)
        for url in names.values():
            await_line("launch.err", f"http: the page of (?:this process|the launched processes) is at ({re.escape(url)})")
            expect(get(url, "/healthz")[0] == 200, f"{url} does not answer")
        check_workers(names["worker-0"], names["worker-1"])
        check_metrics(*names.values())
        check_processes(names["launch"])
    expect(targets("targets.json") == [], "the targets are still there")


def check_failure():
    """Prometheus learns of a failed run: launch serves its end at the scheduler's address until that is scraped."""
    with started("failed", "launch", "--cluster", "http-failed", "--servers", "1", "--workers", "1", "--http",
                 "127.0.0.1:0", "--http-targets", "failed.json", "--http-wait", "3600", "--", "train", "--data", "day.txt",
                 "--format", "criteo", "--epochs", "100000") as process:
        url = await_line("failed.err", r"\[scheduler\] http: the page of this process is at (\S+)")
        server = await_line("failed.err", r"server 0 \([^)]*:(\d+)\) joined")
        await_status(url, "/readyz", 200)
        os.kill(int(server), signal.SIGKILL)
        await_line("failed.err", r"^(http: the page of this process is at )" + re.escape(url))
        with open("failed.json", encoding="utf-8") as file:
            listed = [target["labels"]["process"] for target in json.load(file)]
        expect(listed == ["scheduler"], f"the targets of a failed run are {listed}")
        run = json.loads(get(url, "/status.json")[1])["run"]
        expect(run["state"] == "failed" and "server 0" in run["error"], f"the run tells {run}")
        expect(run["error"] in html.unescape(get(url, "/")[1]), "the page has no reason")
        expect(process.poll() is None, "the end was read, but not the metrics of it")
        expect('tug_run_state{role="launch",state="failed"} 1' in get(url, "/metrics")[1], "the metrics lack the end")
        expect(process.wait(PATIENCE) == 4, "the exit code is another one")
    with open("failed.json", encoding="utf-8") as file:
        expect(json.load(file) == [], "the targets of a failed run are left")
    run = subprocess.run([os.environ["TUG_BINARY"], "launch", "--http", "127.0.0.1:0", "--http-targets",
                          "no/such/dir/t.json", "--", "train", "--data", "day.txt", "--format", "criteo"],
                         capture_output=True, text=True)
    expect(run.returncode == 4 and "no/such/dir" in run.stderr, f"a missing directory: {run.returncode} {run.stderr}")


def check_divergence():
    """The launcher reports that the training has diverged: the scheduler sends it the reason, not only the message."""
    with open("wild.csv", "w", encoding="utf-8") as file:
        file.write("y,word\n" + "".join(f"{i % 3 == 0:d},w{i % 7}\n" for i in range(1000)))
    with started("diverged", "launch", "--cluster", "http-diverged", "--servers", "1", "--workers", "1", "--http",
                 "127.0.0.1:0", "--http-targets", "diverged.json", "--http-wait", "3600", "--", "train", "--data",
                 "wild.csv", "--format", "csv", "--label", "y", "--model", "fm", "--optimizer", "sgd", "--lr", "900",
                 "--epochs", "20") as process:
        url = await_line("diverged.err", r"^http: the page of this process is at (\S+)")
        run = json.loads(get(url, "/status.json")[1])["run"]
        expect(run["state"] == "failed" and run["diverged"] is True, f"the run tells {run}")
        expect('tug_run_diverged{role="launch"} 1' in get(url, "/metrics")[1], "the metrics do not tell it")
        expect(process.wait(PATIENCE) == 3, "the exit code is another one")


def check_train():
    """A run of one process reports its state, with the passes so far."""
    with started("train", "train", "--data", "day.txt", "--format", "criteo", "--epochs", "100000", "--http",
                 "unix:train.sock") as process:
        url = await_line("train.err", r"http: the page of this process is at (\S+)")
        end = time.monotonic() + PATIENCE
        while not re.search(r'^tug_run_pass\{role="train"\} [1-9]', text := get(url, "/metrics")[1], re.M):
            expect(time.monotonic() < end and process.poll() is None, "the run does not come to a pass")
            time.sleep(0.02)
        expect('tug_run_passes{role="train"} 100000' in text, "the passes are wrong")
        expect(re.search(r'^tug_trained_table_rows\{role="train",table="sparse"\} [1-9]', text, re.M), "no rows")
        check_metrics(url)


def main():
    check_launch()
    check_failure()
    check_divergence()
    check_train()
    if not missing():
        check_end_in_browser()
    with started("scheduler", "scheduler", "--servers", "1", "--workers", "0", "--http", "127.0.0.1:0"):
        scheduler = await_line("scheduler.err", r" at tcp://(127.0.0.1:\d+), waiting")
        url = await_line("scheduler.err", r"http: the page of this process is at (\S+)")
        expect(get(url, "/readyz")[0] == 503 and "0 of 1 server" in get(url, "/readyz")[1], "ready without a server")
        with started("server", "server", "--scheduler", scheduler, "--loops", "2", "--save-root", ".", "--http",
                     "unix:server.sock"):
            socket_url = await_line("server.err", r"http: the page of this process is at (\S+)")
            await_status(url, "/readyz", 200)
            await_status(socket_url, "/readyz", 200)
            tug("table", "create", "--scheduler", scheduler, "--settings", TABLE)
            time_of_old_facts = time.monotonic() + 1.1
            while time.monotonic() < time_of_old_facts:
                get(url, "/healthz")
            check_numbers(url, scheduler)
            check_metrics(url, socket_url)
            if missing():
                print(f"skipped: chromium is not there: {missing()}")
            else:
                check_in_browser(url)
            tug("stop", "--scheduler", scheduler)
    expect(not os.path.exists("server.sock"), "the socket is left")
    if missing() or not shutil.which("promtool"):
        sys.exit(77)


main()
