#!/bin/sh
# Asks a real cluster over HTTP and compares the page with `tug status --json`: see http_check.py.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
command -v python3 >/dev/null || {
    echo "skipped: python3 is not there: python3"
    exit 77
}
if "$TUG_BINARY" launch --http 127.0.0.1:0 --workers 1 -- train 2>&1 | grep -q libmicrohttpd; then
    echo "skipped: this build has no --http: libmicrohttpd12"
    exit 77
fi
exec python3 -B "$(dirname "$0")/http_check.py"
