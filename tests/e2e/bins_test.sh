#!/bin/sh
# Numbers in bins: the bin boundaries that the first rows decide are the same for a file,
# a pipe and a compressed file, on one machine and on a cluster, and they stay with the
# model whatever file comes later.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
. "$(dirname "$0")/functions.sh"

edges() { # MODEL
    cat "$1"/save-*/manifest.json | tr -d ' \n' | grep -o '"[^"]*","edges"' | sort -u
}
same() { # MODEL: checks that its bins are those of the plain file
    [ "$(edges plain)" = "$(edges "$1")" ] || fail "$1: $(edges "$1"), not $(edges plain)"
    "$tug" predict --from "$1" --data data.csv >got
    cmp want got || fail "$1 predicts otherwise"
}

# Large, small and missing prices do not sell; most prices are 0.
awk 'BEGIN {
    srand(5); print "y,price,city" >"data.csv"; print "y,price,city" >"later.csv"
    for (i = 0; i < 6000; i++) {
        p = rand() < .4 ? 0 : rand() * rand() * 1000; gone = rand() < .1
        print (!gone && p > 100 && p < 300 ? 1 : 0) "," (gone ? "" : p) ",c" i % 9 >"data.csv"
        print i % 2 "," 1e6 + i "," "c" i % 9 >"later.csv"
    }
}'
gzip -k data.csv
mkfifo pipe
how='--format csv --label y --model lr --epochs 3 --deterministic --threads 2'
bins='--numeric price:bins:16'
run train $how $bins --data data.csv --out plain
[ -n "$(edges plain)" ] || fail "no edges are saved"
run train $how --numeric price:log --data data.csv --out log
awk -v a="$(auc plain data.csv)" -v b="$(auc log data.csv)" 'BEGIN { exit !(a > .97 && b < .8) }' ||
    fail "auc $(auc plain data.csv) with bins, $(auc log data.csv) with logarithms"
"$tug" predict --from plain --data data.csv >want
run table get 'price=150' --from plain
run predict --from plain --data data.csv --explain
grep -qE 'price=(\[|<|>=)' text && grep -q price=missing text || fail "--explain names no bin: $(head -5 text)"

run train $how $bins --data data.csv.gz --out packed
same packed
cat data.csv >pipe &
run train $how $bins --data pipe --out piped
wait
same piped
"$tug" train $how $bins --data - --out stdin <data.csv >text 2>&1 || fail "$(cat text)"
same stdin
run train $how $bins --data data.csv --pipe-command cat --out command
same command
tail -n +2 data.csv >bare.csv
run train $how $bins --columns y,price,city --data bare.csv --out bare
[ "$(edges bare)" = "$(edges plain)" ] || fail "without a header: $(edges bare)"
run launch --servers 1 --workers 2 -- train $how $bins --mode sync --data data.csv --out shared
[ "$(edges shared)" = "$(edges plain)" ] || fail "on a cluster: $(edges shared)"
run launch --servers 1 --workers 2 -- train --format csv --label y --model lr --mode async $bins \
    --data data.csv --out async
[ "$(edges async)" = "$(edges plain)" ] || fail "async: $(edges async)"

# Models with fields must know the columns before workers read.
run launch --servers 1 --workers 2 -- train --format csv --label y --model wide_deep --hidden 8 --epochs 1 \
    $bins --data data.csv --test data.csv --out deep
[ "$(edges deep)" = "$(edges plain)" ] || fail "wide_deep on a cluster: $(edges deep)"

# A resumed run keeps the bin boundaries of its beginning, although the first file has
# changed.
run train --resume --model lr --deterministic --epochs 4 --data data.csv --out plain $bins
[ "$(edges plain)" = "$(edges packed)" ] || fail "resumed with other edges: $(edges plain)"
run train --init-from packed --model lr --deterministic --epochs 1 --data later.csv --out onward
[ "$(edges onward)" = "$(edges packed)" ] || fail "--init-from: $(edges onward)"
run launch --servers 1 --workers 2 -- train --init-from packed --model lr --mode sync --epochs 1 --data later.csv \
    --out farther
[ "$(edges farther)" = "$(edges packed)" ] || fail "--init-from on a cluster: $(edges farther)"
run train $how $bins --data later.csv --out other
[ "$(edges other)" != "$(edges packed)" ] || fail "other data has the same edges"

refused 3 "data.csv:2: value 'c0' of column 'city' is not a number" train $how --data data.csv \
    --numeric city:bins
sed '700s/,.*,/,cheap,/' data.csv >odd.csv
refused 3 "odd.csv:700: value 'cheap' of column 'price' is not a number" train $how $bins --data odd.csv
run train $how $bins --data odd.csv --max-bad-lines 1 --out odd
refused 2 'there can be 2 to 1024 bins' train $how --numeric price:bins:1 --data data.csv
refused 2 'was trained on 16 bins' train --resume --model lr --deterministic --epochs 5 --data data.csv --out plain \
    --numeric price:bins:8
refused 2 '--numeric works only with' train --format libsvm --data data.csv --numeric a:bins
refused 2 'which is not a feature column of words' train $how $bins --data data.csv --cross-columns 'price*city'
