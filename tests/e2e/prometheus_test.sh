#!/bin/sh
# A real cluster, Prometheus, its Alertmanager: alerts fire and end when faults are made and
# mended, and the queries of docs/operations.md and of the board have results.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if ! "$TUG_BINARY" launch --help | grep -q http-targets ||
    "$TUG_BINARY" launch --http 127.0.0.1:0 --workers 1 -- train 2>&1 | grep -q libmicrohttpd; then
    echo "skipped: this build has no --http: libmicrohttpd12"
    exit 77
fi
mkdir disk
# A small disk that can be filled up, in a mount namespace of this test.
if unshare -m mount -t tmpfs -o size=64m none disk 2>/dev/null; then
    exec unshare -m sh -c 'mount -t tmpfs -o size=64m none disk && exec "$@"' - \
        python3 "$here/prometheus_check.py" "$TUG_BINARY" "$here/../.."
fi
exec python3 "$here/prometheus_check.py" "$TUG_BINARY" "$here/../.."
