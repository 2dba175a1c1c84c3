#!/usr/bin/env bash
# Runs the lines of documentation that begin with "$ tug", page by page, each page's in its
# own folder and in its order, over small data that is made here: lines that somebody copies
# from a page have been run.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

build=$1
docs=$(cd "$(dirname "$0")/../docs" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$build:$PATH

# Clicks that follow from the site and the ad, in the formats that the pages read.
make_data() {
    awk -v seed="$1" -v lines="$2" 'BEGIN {
        srand(seed)
        print "click,site,ad,hour" > "made.csv"
        for (i = 0; i < lines; i++) {
            s = int(rand() * 20); a = int(rand() * 30); h = int(rand() * 24)
            p = 1 / (1 + exp(1.5 - (s % 3) - (a % 4) / 2))
            y = rand() < p ? 1 : 0
            printf "%d,s%d,a%d,%d\n", y, s, a, h > "made.csv"
            printf "%d 0:%d:1 1:%d:1 2:%d:1\n", y, 1 + s, 21 + a, 51 + h > "made.ffm"
        }
    }'
    mv made.csv "$3.csv"
    mv made.ffm "$3.ffm"
}

for page in from-xlearn-and-vw.md; do
    mkdir "$work/$page"
    cd "$work/$page"
    make_data 1 4000 train
    make_data 2 1000 valid
    cp valid.csv test.csv
    n=0
    while IFS= read -r line; do
        n=$((n + 1))
        if ! timeout 120 bash -c "$line" > out 2>&1; then
            echo "docs/$page: this line failed: $line"
            cat out
            exit 1
        fi
        if [[ $line == "tug predict"* && $(wc -l < scores) != 1000 ]]; then
            echo "docs/$page: $(wc -l < scores) scores of 1000 lines: $line"
            exit 1
        fi
    done < <(sed -n 's/^    \$ \(tug .*\)/\1/p' "$docs/$page")
    [ "$n" -gt 0 ] || { echo "docs/$page has no line that begins with '\$ tug'"; exit 1; }
    echo "docs/$page: $n lines ran"
done
