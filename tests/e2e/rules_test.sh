#!/bin/sh
# The alert rules that are installed: promtool accepts them, and each alert fires and ends
# as tests/monitoring/tug.rules.test.yml says.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
if ! command -v promtool >/dev/null; then
    echo "skipped: Prometheus is not there: prometheus, prometheus-alertmanager"
    exit 77
fi
promtool check rules "$root/monitoring/tug.rules.yml" >said 2>&1 || {
    cat said
    exit 1
}
promtool test rules "$root/tests/monitoring/tug.rules.test.yml" >said 2>&1 || {
    cat said
    exit 1
}
# Each alert has a unit test.
sed -n 's/.*- alert: //p' "$root/monitoring/tug.rules.yml" | while read -r alert; do
    grep -q "alertname=\"$alert\"" "$root/tests/monitoring/tug.rules.test.yml" || {
        echo "tests/monitoring/tug.rules.test.yml does not test $alert"
        exit 1
    }
done
