#!/bin/sh
# Compares reports with --json, and opens them in a headless browser: see report_check.py.
# With TUG_SCREENSHOTS=DIR the test keeps pictures of the pages in DIR.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
exec python3 -B "$(dirname "$0")/report_check.py"
