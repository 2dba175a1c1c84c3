"""Faults of a real cluster, as Prometheus and its Alertmanager see them: see prometheus_test.sh.

    prometheus_check.py TUG ROOT

The folder `disk` is the cluster's disk. It is filled up if it is a mount of its own; else this part is skipped.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import secrets
import signal
import subprocess
import sys

import prometheus_kit
from prometheus_kit import Prometheus, free_port, wait

TUG, ROOT = sys.argv[1:3]
CLUSTER = f"seen{os.getpid()}"

# The shipped rules wait for minutes; the test makes these times shorter. Each entry is (text in the rules,
# replacement, number of occurrences).
QUICK = [
    ("for: 1m", "for: 0s", 3), ("for: 2m", "for: 0s", 3), ("for: 5m", "for: 0s", 1),
    ("idle_seconds > 300", "idle_seconds > 3", 1),
    ("idle_seconds > 600", "idle_seconds > 3", 2), ("21600", "4", 2), ("[15m]", "[5s]", 4), ("[5m]", "[5s]", 3),
    ("[10m]", "[5s]", 2), ("offset 5m", "offset 5s", 1), ("offset 30m", "offset 5s", 1), ("[2m:15s]", "[3s:1s]", 5),
    ("> 0.9", "> 0.0001", 2),
]


def quick(rules):
    for old, new, times in QUICK:
        if rules.count(old) != times:
            sys.exit(f"'{old}' is {rules.count(old)} times in the rules, not {times} times")
        rules = rules.replace(old, new)
    return rules


class Run:
    """A run of `tug launch` that ends with the test."""

    def __init__(self, name, *words):
        self.name, self.out = name, f"{name}.err"
        with open(self.out, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([TUG, "launch", "--cluster", name, *words], stderr=log,
                                            stdout=subprocess.DEVNULL)

    def said(self):
        with open(self.out, encoding="utf-8") as log:
            return log.read()

    def node(self, name):
        """The process id of a node, from 'worker 1 (host:PID) joined'."""
        def found():
            if self.process.poll() is not None:
                sys.exit(f"tug launch ended: {self.said()}")
            return re.search(rf"{name} \([^)]*:(\d+)\) joined", self.said())
        return int(wait(f"{name} joins", found)[1])

    def status(self):
        answer = subprocess.run([TUG, "status", "--cluster", self.name, "--json"], capture_output=True, check=True)
        return json.loads(answer.stdout)

    def at_begin_of_pass(self):
        """Waits until a pass has begun, so that all workers have pieces left for a while."""
        def begun():
            state = self.status().get("pass")
            return state and not state["done"] and state["pieces_done"] == 0
        wait("a pass begins", begun)

    def stop_at_work(self, pid, rank):
        """Stops a worker that has a piece and whose batch the others wait for. On a busy machine it may be stopped
        between two pieces, or before it has read its piece: then the run goes on, or stalls for another reason, such as
        a save. So this function checks where the run stalls, and if necessary lets the worker continue and stops it
        again later."""
        def stands():
            facts = self.status()
            stopped = next(n for n in facts["nodes"] if (n["role"], n["rank"], n["alive"]) == ("worker", rank, True))
            return min(stopped["seconds_since_progress"], facts["run"]["seconds_since_progress"]) > 1 and (stopped, facts)

        def stopped_at_work():
            self.at_begin_of_pass()
            os.kill(pid, signal.SIGSTOP)
            stopped, facts = wait("the run stands", stands)
            behind = max((w["behind"] for loop in facts["servers"] for table in loop.get("tables", [])
                          for w in table.get("workers", []) if w["rank"] == rank), default=0)
            if stopped["pieces_held"] > 0 and behind >= 2:
                return True
            print("the worker is stopped again, since the others did not wait for its batch")
            os.kill(pid, signal.SIGCONT)
            return False
        wait("the worker is stopped at work", stopped_at_work)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(prometheus_kit.PATIENCE)

    def fails(self):
        """Waits until the run ends with the exit code 4."""
        if self.process.wait(prometheus_kit.PATIENCE) != 4:
            sys.exit(f"the run ended otherwise: {self.said()}")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()


def lr_run(letter, *words, data="day.csv", launch=()):
    """A run of --model lr, whose pages Prometheus finds."""
    return Run(CLUSTER + letter, *launch, "--http", "127.0.0.1:0", "--http-targets", f"targets-{letter}.json", "--",
               "train", "--data", data, "--format", "csv", "--model", "lr", *words)


def endless(letter, *words, **others):
    return lr_run(letter, "--epochs", "1000000", *words, **others)


def firing(p, alert, **labels):
    marks = ", ".join(f'{k}="{v}"' for k, v in {"alertname": alert, "alertstate": "firing", **labels}.items())
    return p.query(f"ALERTS{{{marks}}}")


def await_firing(p, *alerts, **labels):
    """Waits until Prometheus has the alerts and the Alertmanager has told of them."""
    for alert in alerts:
        wait(f"{alert} fires {labels or ''}", lambda name=alert: firing(p, name, **labels))
        p.await_told(alert, "firing", **labels)
        print(f"{alert} fires")


def await_resolved(p, *alerts, since, **labels):
    for alert in alerts:
        p.await_told(alert, "resolved", since, **labels)
        print(f"{alert} is resolved")


def none_fires(p, *alerts):
    """Waits until no alert fires. With the quick rules, some fire for a while if a busy machine stalls a worker."""
    wait(f"none of {alerts} fires without its fault", lambda: not any(firing(p, alert) for alert in alerts))


def all_queries_answer(p, validated=False):
    """Each query of the page and of the board has a result in a run that has everything that the queries ask for. Queries
    about validation need a run with --valid, which --table does not allow."""
    queries = prometheus_kit.queries_of_page(f"{ROOT}/docs/operations.md")
    queries += prometheus_kit.queries_of_board(f"{ROOT}/monitoring/tug.dashboard.json")
    queries = [query for query in queries if ("tug_run_valid" in query) == validated]
    for query in queries:
        if "# may be empty" in query:
            p.query(query)
        else:
            p.await_query(query)
    print(f"{len(queries)} queries have results")


def stopped_worker(p, run):
    stalled = ("TugWorkerNoProgress", "TugRunNoProgress", "TugSavesTooOld", "TugProcessDown")
    none_fires(p, *stalled)
    worker = run.node("worker 1")
    run.stop_at_work(worker, 1)
    await_firing(p, *stalled)
    await_firing(p, "TugStaleness", worker="1")
    since = len(p.got)
    os.kill(worker, signal.SIGCONT)
    await_resolved(p, *stalled, since=since)
    await_resolved(p, "TugStaleness", since=since, worker="1")


def full_disk(p):
    none_fires(p, "TugDiskNearlyFull", "TugSaveFailed")
    try:
        with open("disk/fill", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
    except OSError:
        pass
    await_firing(p, "TugDiskNearlyFull", "TugSaveFailed")
    save_ends_run(p)
    since = len(p.got)
    os.remove("disk/fill")
    await_resolved(p, "TugDiskNearlyFull", "TugSaveFailed", since=since)


def save_ends_run(p):
    """A save that fails on the full disk ends a run: the process that counts failed saves has ended before Prometheus
    could read the count, so launch serves it."""
    with lr_run("s", "--out", "disk/other", "--epochs", "1") as run:
        run.fails()
        await_firing(p, "TugSaveFailed", cluster=run.name)
        await_resolved(p, "TugSaveFailed", since=0, cluster=run.name)


def standing(p):
    """A server that is stopped while the run validates, and while it saves."""
    none_fires(p, "TugRunNoProgress", "TugSaveStalled")
    with endless("p", "--valid", "day.csv", "--out", "standing", "--save-every", "1", "--patience", "0",
                 data="valid.csv", launch=("--dead-timeout", "600")) as run:
        server = run.node("server 0")
        with open("targets-p.json", encoding="utf-8") as file:
            page = next(t for t in json.load(file) if t["labels"]["process"] == "scheduler")["targets"][0]

        def facts():
            return json.loads(prometheus_kit.get(f"http://{page}/status.json"))["run"]

        def stands_in(state):
            os.kill(server, signal.SIGSTOP)
            wait("the run stands", lambda: facts()["seconds_since_progress"] > 1)
            if facts()["state"] == state:
                return True
            os.kill(server, signal.SIGCONT)
            wait("the run goes on", lambda: facts()["seconds_since_progress"] < 1)
            return False

        for state, alert in (("validating", "TugRunNoProgress"), ("saving", "TugSaveStalled")):
            wait(f"the run stands while {state}", lambda name=state: stands_in(name))
            await_firing(p, alert, cluster=run.name)
            since = len(p.got)
            os.kill(server, signal.SIGCONT)
            await_resolved(p, alert, since=since, cluster=run.name)
        run.end()


def fires_until_end(p, run, alert):
    """Waits until the alert of the run fires, ends the run, and waits until the alert is resolved."""
    await_firing(p, alert, cluster=run.name)
    since = len(p.got)
    run.end()
    await_resolved(p, alert, since=since, cluster=run.name)


def learning_nothing(p):
    """A learning rate of nearly 0."""
    with endless("n", "--lr", "1e-12") as run:
        fires_until_end(p, run, "TugLearnsNothing")


def lost_node(p, run):
    try:
        os.kill(run.node("worker 1"), signal.SIGKILL)
    except ProcessLookupError:
        pass  # on a busy machine it was stopped for so long that it counts as dead
    await_firing(p, "TugNodeLost", node_role="worker", node_rank="1")
    since = len(p.got)
    if run.end() != 130:
        sys.exit(f"the run ended otherwise: {run.said()}")
    await_resolved(p, "TugNodeLost", "TugMemoryNearLimit", since=since)
    wait("no alert is left when the run has ended", lambda: not p.query('ALERTS{alertstate="firing"}'))


def make_keys():
    """Keys for pages over TLS, and a token."""
    for words in (["ca"], ["node", "--name", "web", "--host", "127.0.0.1"]):
        subprocess.run([TUG, "cert", *words, "--dir", "keys"], check=True, stdout=subprocess.DEVNULL)
    with open("token", "w", opener=lambda path, flags: os.open(path, flags, 0o600), encoding="utf-8") as file:
        file.write(secrets.token_hex(32) + "\n")


def diverging(p):
    """A learning rate that is much too large, in a run whose metrics need TLS and a token."""
    none_fires(p, "TugDiverged")
    trust = ("--http-cert", "keys/web.pem", "--http-key", "keys/web.key", "--http-token-file", "token")
    with endless("d", "--valid", "valid.csv", "--lr", "50", "--patience", "0", launch=trust) as run:
        all_queries_answer(p, validated=True)
        fires_until_end(p, run, "TugDiverged")


def validating(p):
    """Validation data whose labels are wrong."""
    none_fires(p, "TugValidationWorse")
    with open("day.csv", encoding="utf-8") as day, open("wrong.csv", "w", encoding="utf-8") as to:
        to.write(next(day))
        to.writelines(("0" if line[0] == "1" else "1") + line[1:] for line in day)
    with endless("v", "--valid", "wrong.csv", "--patience", "0") as run:
        fires_until_end(p, run, "TugValidationWorse")


def failing(p):
    """A server is lost, which ends the run: launch lets Prometheus read that, and then ends."""
    none_fires(p, "TugRunFailed")
    with endless("f") as run:
        server = run.node("server 0")
        p.await_query(f'tug_run_state{{cluster="{run.name}", state="training"}}')
        os.kill(server, signal.SIGKILL)
        run.fails()
        await_firing(p, "TugRunFailed", cluster=run.name)
        await_resolved(p, "TugRunFailed", since=0, cluster=run.name)


def main():
    prometheus_kit.skip_without_prometheus()
    make_keys()
    subprocess.run([TUG, "synth", "--rows", "20000", "--out", "day.csv", "--format", "csv"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([TUG, "synth", "--rows", "2000", "--seed", "2", "--out", "valid.csv", "--format", "csv"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = Run(CLUSTER, "--servers", "2", "--workers", "2", "--dead-timeout", "600", "--env", "TUG_MEMORY=128M",
              "--http", "127.0.0.1:0", "--http-targets", "targets.json", "--",
              "train", "--data", "day.csv", "--format", "csv", "--model", "lr", "--mode", "ssp:2", "--batch", "64",
              "--table", "cold=cold; hot-rows=2000", "--out", "disk/model", "--save-every", "200batches", "--keep", "2",
              "--epochs", "1000000")
    p = None
    try:
        run.node("worker 1")
        with open(f"{ROOT}/monitoring/tug.rules.yml", encoding="utf-8") as file:
            p = Prometheus("targets*.json", quick(file.read()), "keys/ca.pem", "token")
        all_queries_answer(p)
        await_firing(p, "TugMemoryNearLimit")
        stopped_worker(p, run)
        if os.path.ismount("disk"):
            full_disk(p)
        diverging(p)
        validating(p)
        learning_nothing(p)
        standing(p)
        failing(p)
        lost_node(p, run)
    finally:
        run.process.kill()
        if p is not None:
            p.close()
    if not os.path.ismount("disk"):
        print("skipped: no right to mount a small disk, which is filled up")
        sys.exit(prometheus_kit.SKIPPED)


main()
