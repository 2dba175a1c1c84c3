#!/usr/bin/env bash
# Runs the commands of pages that a reader can type as they stand, set-up included: all lines in blocks of
# code that begin with a command of ours, in their order, each page's in a folder of its own.
#
#   commands_of_pages_test.sh BUILD PAGE...
#
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$build:$PATH TUG_WAIT_SECONDS=90
shift

for page; do
    mkdir -p "$work/$page"
    cd "$work/$page"
    n=0
    while IFS= read -r line; do
        n=$((n + 1))
        if ! timeout 100 bash -c "$line" > out 2>&1 < /dev/null; then
            echo "docs/$page: this line failed: $line"
            cat out
            exit 1
        fi
    done < <(sed -nE 's/^    ((tug|cmp) .*)/\1/p' "$root/docs/$page")
    [ "$n" -gt 0 ] || { echo "docs/$page has no command"; exit 1; }
    echo "docs/$page: $n lines ran"
done
