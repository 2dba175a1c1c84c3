"""Prometheus and its Alertmanager for tests: real ones on loopback, in the present folder, with short intervals.

Each wait has a deadline, which is longer than anything takes on a busy machine.

SPDX-License-Identifier: Apache-2.0
"""

import http.server
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

PATIENCE = 120  # seconds; only something that hangs reaches it
SKIPPED = 77


def skip_without_prometheus():
    for program in ("prometheus", "promtool", "prometheus-alertmanager"):
        if shutil.which(program) is None:
            print("skipped: Prometheus is not there: prometheus, prometheus-alertmanager")
            sys.exit(SKIPPED)


def wait(what, ask, seconds=PATIENCE):
    """Calls ask() until it returns something true, and returns that."""
    until = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > until:
            sys.exit(f"this did not happen within {seconds} s: {what}")
        time.sleep(0.05)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class Receiver(http.server.BaseHTTPRequestHandler):
    """Gets the notifications of the Alertmanager."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for alert in body["alerts"]:
            self.server.got.append((alert["labels"]["alertname"], alert["status"], alert))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


class Prometheus:
    """A Prometheus that scrapes the targets of a file, and an Alertmanager that it tells."""

    def __init__(self, targets, rules, ca, token):
        """`targets`: a pattern of file_sd files; `rules`: the text of a file of rules; `ca`, `token`: files for targets that
        speak TLS."""
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.server.got = self.got = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.port, self.alert_port, self.processes = free_port(), free_port(), []
        with open("rules.yml", "w", encoding="utf-8") as file:
            file.write(rules)
        with open("alertmanager.yml", "w", encoding="utf-8") as file:
            file.write(f"""
route: {{receiver: test, group_by: ['...'], group_wait: 0s, group_interval: 500ms, repeat_interval: 1h}}
receivers:
  - name: test
    webhook_configs: [{{url: 'http://127.0.0.1:{self.server.server_port}/', send_resolved: true}}]
""")
        with open("prometheus.yml", "w", encoding="utf-8") as file:
            file.write(f"""
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 500ms}}
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{self.alert_port}']}}]}}]}}
scrape_configs:
  - job_name: tug
    authorization: {{credentials_file: '{token}'}}
    tls_config: {{ca_file: '{ca}'}}
    file_sd_configs: [{{files: ['{targets}'], refresh_interval: 1s}}]
""")
        self.start("prometheus-alertmanager", "--config.file=alertmanager.yml", "--storage.path=alerts",
                   f"--web.listen-address=127.0.0.1:{self.alert_port}", "--cluster.listen-address=")
        self.start("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=samples",
                   f"--web.listen-address=127.0.0.1:{self.port}")
        wait("Prometheus answers", lambda: self.answers(self.port) and self.answers(self.alert_port))

    def start(self, program, *words):
        with open(f"{program}.log", "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen([program, *words], stdout=log, stderr=log))

    def answers(self, port):
        for process in self.processes:
            if process.poll() is not None:
                sys.exit(f"{process.args[0]} ended: {open(process.args[0] + '.log', encoding='utf-8').read()}")
        try:
            get(f"http://127.0.0.1:{port}/-/ready")
            return True
        except (urllib.error.URLError, OSError):
            return False

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.server.shutdown()

    def query(self, expression):
        """Returns the samples of an instant query: a list of (labels, value)."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            answer = json.loads(get(url))
        except urllib.error.HTTPError as e:
            sys.exit(f"{expression}: {e.read().decode()}")
        return [(sample["metric"], float(sample["value"][1])) for sample in answer["data"]["result"]]

    def await_query(self, expression):
        return wait(f"the query has a result: {expression}", lambda: self.query(expression))

    def told(self, alert, status, since=0, **labels):
        """Returns whether the Alertmanager has passed on such a notification; ignores the first `since` ones."""
        return any(name == alert and now == status and all(one["labels"].get(k) == v for k, v in labels.items())
                   for name, now, one in self.got[since:])

    def await_told(self, alert, status, since=0, **labels):
        wait(f"{alert} is {status} {labels or ''}", lambda: self.told(alert, status, since, **labels))


def queries_of_page(path):
    """The queries that a page has in blocks of promql."""
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"^```promql\n(.*?)^```", file.read(), re.S | re.M)
    return [re.sub(r"[ \n]+", " ", block) if "#" not in block else block for block in blocks]


def queries_of_board(path):
    """The queries of a Grafana board, with its variables replaced as Grafana does."""
    with open(path, encoding="utf-8") as file:
        board = json.load(file)
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    return [q.replace("$__rate_interval", "1m").replace("$cluster", ".*") for q in queries]
