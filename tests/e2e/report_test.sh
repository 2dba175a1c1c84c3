#!/bin/sh
# Compares reports with --json, and opens them in a headless browser: see report_check.py.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
command -v python3 >/dev/null || {
    echo "skipped: python3 is not there: python3"
    exit 77
}
exec python3 -B "$(dirname "$0")/report_check.py"
