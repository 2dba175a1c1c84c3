#!/usr/bin/env python3
"""A server of data for e2e/web: http with faults, S3 that computes and checks signatures
itself, and WebHDFS with redirects.

    web_server.py FOLDER PORT_FILE LOG

Serves the files below FOLDER, and writes one line to LOG for each request. Paths:

    /FAULT/FILE             http; FAULT is one of `faults` below
    /bucket/KEY, /bucket?.. S3, signed for KEY_ID in REGION
    /webhdfs/v1/PATH        WebHDFS, which points to /node/PATH

SPDX-License-Identifier: Apache-2.0
"""

import calendar
import hashlib
import hmac
import http.server
import json
import os
import sys
import threading
import time
import urllib.parse

KEY_ID, SECRET, TOKEN, REGION = "AKTUGTEST", "not+a/secret", "t0ken==", "eu-test-1"
PAGE = 2  # most keys in one list, whatever number the request asks for
CUT = 50000  # bytes after which the fault `cut` breaks a connection

folder, port_file, log_file = sys.argv[1:4]
log = open(log_file, "w", buffering=1)
lock = threading.Lock()
seen = {}


def quote(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def signature(request, headers, names, date):
    url = urllib.parse.urlsplit(request.path)
    query = sorted(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
    canonical = "\n".join(
        ["GET", quote(urllib.parse.unquote(url.path), "/"),
         "&".join(f"{quote(k)}={quote(v)}" for k, v in query)]
        + [f"{n}:{headers[n].strip()}" for n in names]
        + ["", ";".join(names), hashlib.sha256(b"").hexdigest()])
    scope = f"{date[:8]}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return (f"AWS4-HMAC-SHA256 Credential={KEY_ID}/{scope}, SignedHeaders={';'.join(names)}, "
            f"Signature={hmac.new(key, text.encode(), hashlib.sha256).hexdigest()}")


def xml(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def etag(data):
    return '"' + hashlib.md5(data).hexdigest() + '"'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=(), length=None):
        with lock:
            log.write(f"{status} {self.path} {self.headers.get('range', '-')}\n")
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if length != "none":
            self.send_header("Content-Length", str(len(body) if length is None else length))
        else:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def count(self):
        with lock:
            seen[self.path] = seen.get(self.path, 0) + 1
            return seen[self.path]

    def find(self, path):
        at = os.path.join(folder, urllib.parse.unquote(path))
        if ".." in path or not os.path.isfile(at):
            return None
        with open(at, "rb") as f:
            return f.read()

    def ranged(self, data):
        text = self.headers.get("range")
        if text is None:
            return 200, data, []
        first, last = text.removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last), len(data) - 1)
        if first >= len(data):
            return 416, b"", [("Content-Range", f"bytes */{len(data)}")]
        return 206, data[first:last + 1], [("Content-Range", f"bytes {first}-{last}/{len(data)}")]

    # ---------------------------------------------------------------- http

    def serve(self, data, fault):
        n = self.count()
        status, body, headers = self.ranged(data)
        headers.append(("ETag", etag(data)))
        small = len(body) <= 64
        if fault == "flaky" and n % 3 != 0:
            return self.answer((500, 503)[n % 3 - 1], b"wait a moment")
        if fault == "busy" and not small:
            return self.answer(503, b"for ever")
        if fault == "worse" and not small:
            with lock:
                seen["worse"] = seen.get("worse", 0) + 1
            return self.answer(500 if seen["worse"] == 1 else 503, b"for ever")
        if fault == "drip" and not small:
            self.answer(status, body[:60], headers, len(body))
            self.close_connection = True
            return None
        if fault == "trickle" and not small:
            try:
                self.answer(status, body[:1], headers, len(body))
                for k in range(1, len(body)):
                    time.sleep(0.05)
                    self.wfile.write(body[k:k + 1])
            except OSError:  # the reader has given up
                self.close_connection = True
            return None
        if fault == "short" and len(body) > 70000:
            body = body[:70000]
            first = int(headers[0][1].split()[1].split("-")[0])
            headers[0] = ("Content-Range", f"bytes {first}-{first + 69999}/{len(data)}")
        if fault == "plain200":
            return self.answer(200, data)
        if fault == "unknown":
            return self.answer(200, data, length="none")
        if fault == "other" and not small:
            headers[0] = ("Content-Range", f"bytes 7-{len(data) - 1}/{len(data)}")
        if fault == "changes" and not small:
            headers[-1] = ("ETag", '"another"')
        if fault == "cut" and len(body) > CUT:
            self.answer(status, body[:CUT], headers, len(body))
            self.close_connection = True
            return None
        return self.answer(status, body, headers)

    def redirect(self, to, status=302):
        self.answer(status, b"", [("Location", to)])

    # ---------------------------------------------------------------- S3

    def s3(self, url):
        names = ["host"] + (["range"] if "range" in self.headers else []) + [
            "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"]
        headers = {k.lower(): v for k, v in self.headers.items()}
        date = headers.get("x-amz-date", "19700101T000000Z")
        age = abs(time.time() - calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ")))
        good = headers.get("x-amz-security-token") == TOKEN and age < 900
        if not good or headers.get("authorization") != signature(self, headers, names, date):
            return self.answer(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        bucket, _, key = url.path.lstrip("/").partition("/")
        if bucket == "far":
            return self.answer(301, b"<Error><Code>PermanentRedirect</Code></Error>",
                               [("x-amz-bucket-region", "us-far-2")])
        if bucket != "bucket":
            return self.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        if key == "":
            return self.s3_list(dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True)))
        data = self.find(key)
        if data is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return self.serve(data, "cut" if "cut" in key else "none")

    def s3_list(self, query):
        keys = sorted(os.path.relpath(os.path.join(d, f), folder)
                      for d, _, files in os.walk(folder) for f in files)
        keys = [k for k in keys if k.startswith(query["prefix"])
                and k > query.get("continuation-token", "")]
        size = min(PAGE, int(query["max-keys"]))
        page, more = keys[:size], len(keys) > size
        text = ('<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns='
                '"http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Delimiter/>'
                f'<IsTruncated>{str(more).lower()}</IsTruncated>')
        for k in page:
            data = self.find(k)
            text += (f"<Contents><Key>{xml(k)}</Key><ETag>{etag(data).replace(chr(34), '&quot;')}"
                     f"</ETag><Owner><ID>1</ID></Owner><Size>{len(data)}</Size></Contents>")
        if more:
            text += f"<NextContinuationToken>{xml(page[-1])}</NextContinuationToken>"
        self.answer(200, (text + "</ListBucketResult>").encode())

    # ---------------------------------------------------------------- WebHDFS

    def webhdfs(self, path, query):
        at = os.path.join(folder, urllib.parse.unquote(path))
        if query.get("user.name") != "hadoop-user":
            return self.answer(401, b'{"RemoteException":{"exception":"SecurityException"}}')
        if not os.path.exists(at):
            return self.answer(404, b'{"RemoteException":{"exception":"FileNotFoundException"}}')
        if query["op"] == "OPEN":
            tail = urllib.parse.urlencode({k: query[k] for k in ("offset", "length")})
            return self.redirect(f"http://{self.headers['host']}/node/{path}?{tail}", 307)
        names = [""] if os.path.isfile(at) else sorted(os.listdir(at), reverse=True)
        entries = [{"pathSuffix": n, "length": 0 if os.path.isdir(os.path.join(at, n))
                    else os.path.getsize(os.path.join(at, n) if n else at),
                    "type": "DIRECTORY" if os.path.isdir(os.path.join(at, n)) else "FILE",
                    "modificationTime": 1700000000000} for n in names]
        self.answer(200, json.dumps({"FileStatuses": {"FileStatus": entries}}).encode())

    def node(self, path, query):
        data, first = self.find(path), int(query["offset"])
        body = data[first:first + int(query["length"])]
        if len(body) > CUT and "cut" in path:
            self.answer(200, body[:CUT], length=len(body))
            self.close_connection = True
        else:
            self.answer(200, body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        first, _, rest = url.path.lstrip("/").partition("/")
        query = dict(urllib.parse.parse_qsl(url.query))
        if "authorization" in self.headers or first in ("bucket", "far", "none"):
            return self.s3(url)
        if first == "webhdfs":
            return self.webhdfs(rest.removeprefix("v1/"), query)
        if first == "node":
            return self.node(rest, query)
        if first == "circle":
            return self.redirect(self.path)
        if first == "elsewhere":
            return self.redirect("/none/../fine/" + rest)
        if first == "near":
            return self.redirect(f"http://127.0.0.2:{server.server_port}/fine/{rest}")
        if first == "forbidden":
            return self.answer(403, b"no")
        data = self.find(rest)
        if data is None:
            return self.answer(404, b"not found")
        return self.serve(data, first)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
near = http.server.ThreadingHTTPServer(("127.0.0.2", server.server_port), Handler)
for s in server, near:
    threading.Thread(target=s.serve_forever, daemon=True).start()
with open(port_file + ".new", "w") as f:
    f.write(str(server.server_port))
os.rename(port_file + ".new", port_file)
sys.stdin.read()  # until the process that started it has ended
