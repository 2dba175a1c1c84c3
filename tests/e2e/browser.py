"""Opens pages in a headless Chromium, by the protocol of WebDriver (Debian's chromium-driver).

SPDX-License-Identifier: Apache-2.0
"""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request

# A script that finds overlapping labels in charts.
OVERLAPS = """
const found = [];
for (const svg of document.querySelectorAll('svg')) {
  const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  for (let i = 0; i < boxes.length; i++)
    for (let k = i + 1; k < boxes.length; k++) {
      const [a, b] = [boxes[i][1], boxes[k][1]];
      if (a.width && b.width && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
        found.push(boxes[i][0] + ' and ' + boxes[k][0]);
    }
}
return found"""


def missing():
    """Returns whether the browser or its driver is missing."""
    return shutil.which("chromium") is None or shutil.which("chromedriver") is None


class Browser:
    """A browser with a profile of its own in `folder`, and more options of Chromium."""

    def __init__(self, folder, *options):
        self._options = options
        with socket.create_server(("127.0.0.1", 0)) as s:
            self._port = s.getsockname()[1]
        self._driver = subprocess.Popen(["chromedriver", f"--port={self._port}"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self._session = None
        self._folder = folder

    def __enter__(self):
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end:  # until the driver listens
                try:
                    if self._call("GET", "/status")["ready"]:
                        break
                except OSError:
                    time.sleep(0.05)
            words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                     f"--user-data-dir={self._folder}/profile", *self._options]
            answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": {"args": words, "perfLoggingPrefs": {"enableNetwork": True}},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
            self._session = f"/session/{answer['sessionId']}"
            self._debug("Emulation.setEmulatedMedia", features=[])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            if self._session is not None:
                self._call("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait()

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=90) as answer:
            return json.load(answer)["value"]

    def _debug(self, command, **params):
        return self._call("POST", self._session + "/goog/cdp/execute", {"cmd": command, "params": params})

    def run(self, script):
        """Runs a script in the page and returns its result."""
        return self._call("POST", self._session + "/execute/sync", {"script": script, "args": []})

    def _log(self, kind):
        return self._call("POST", self._session + "/se/log", {"type": kind})

    def open(self, address, width, dark):
        """Opens a page in a window of this width and describes it: its width, the console's lines, the addresses that it
        asked for besides its own, and labels that overlap."""
        self._debug("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self._debug("Emulation.setEmulatedMedia",
                    features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._log("browser"), self._log("performance")
        self._call("POST", self._session + "/url", {"url": address})
        events = [json.loads(line["message"])["message"] for line in self._log("performance")]
        asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return {"wide": self.run("return document.documentElement.scrollWidth"),
                "said": [line["message"] for line in self._log("browser")],
                "asked": [url for url in asked if url != address and not url.startswith("data:")],
                "dark": self.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(x => x < 90)"),
                "overlap": self.run(OVERLAPS)}

    def said(self):
        """Returns the lines that the console has got since the last look."""
        return [line["message"] for line in self._log("browser")]

    def picture(self, path):
        """Writes a picture of the whole page."""
        taken = self._debug("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(taken["data"]))
