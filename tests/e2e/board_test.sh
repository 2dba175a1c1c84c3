#!/bin/sh
# Checks that the board for Grafana keeps Grafana's rules: see board_check.py. e2e/prometheus runs its queries.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
command -v python3 >/dev/null || {
    echo "skipped: python3 is not there: python3"
    exit 77
}
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/board_check.py" "$here/../../monitoring/tug.dashboard.json"
