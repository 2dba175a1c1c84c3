#!/usr/bin/env bash
# Runs the commands of a page that a reader can type as they stand, set-up included: the lines of its
# indented blocks that begin with a command, in their order, in a folder of its own. A block of code whose first
# line is a comment with a file's name becomes this file before. Addresses (s3://...) are not to be reached.
#
#   commands_of_pages_test.sh BUILD PAGE
#
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

build=$1 page=$2
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$build:$PATH TUG_WAIT_SECONDS=90
cd "$work"
awk '/^```/ { inside = !inside; first = inside; file = ""; next }
     first  { first = 0; if ($0 ~ /^(#|\/\/) [a-z_]+\.(py|sh)$/) file = $2 }
     inside && file != "" { print > file }' "$root/$page"
n=0
while IFS= read -r line; do
    n=$((n + 1))
    if ! timeout 100 bash -c "$line" > out 2>&1 < /dev/null; then
        echo "$page: this line failed: $line"
        cat out
        exit 1
    fi
done < <(sed -nE 's/^    ((tug|cmp|cp|mkdir|for|awk|sed|zcat) .*)/\1/p' "$root/$page" |
         grep -vE '^tug [a-z]+: |://')
[ "$n" -gt 0 ] || { echo "$page has no command"; exit 1; }
echo "$page: $n lines ran"
