#!/bin/sh
# Data in memory is read once, whatever the number of passes. Each pass has all examples,
# in another order. The result tells the number of examples and their memory, for one
# process and for a cluster.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
. "$(dirname "$0")/functions.sh"

run() { # ARGUMENTS
    "$tug" "$@" --json >text 2>err || fail "tug $*: $(cat err)"
}
number() { # NAME
    sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p" text
}
between() { # NAME LEAST MOST
    awk -v v="$(number "$1")" -v a="$2" -v b="$3" 'BEGIN { exit !(v >= a && v <= b) }' ||
        fail "$1 is $(number "$1"), not $2 to $3: $(cat text)"
}
rows() { # MODEL
    cksum <"$1"/save-000001/sparse-0.rows
}

"$tug" synth --rows 20000 --out data.tsv >text
text=$(wc -c <data.tsv)
how='train --format criteo --model lr --deterministic --threads 2 --data-in memory'

# All passes use the data of one reading: a pipe, which can be read only once, gives the
# same model as a file.
run $how --epochs 3 --data data.tsv --out file
between examples 20000 20000
between epochs 3 3
between data_bytes $((text / 5)) $((text * 2 / 3))
memory=$(number data_bytes)
cat data.tsv | "$tug" $how --epochs 3 --data - --out pipe >text 2>err || fail "$(cat err)"
[ "$(rows file)" = "$(rows pipe)" ] || fail "a pipe gives another model"
[ "$(grep -c 'pass ./3 done' err)" = 3 ] || fail "passes: $(cat err)"

# Another seed gives another order, and so another model; the same seed gives the same
# model.
run $how --epochs 3 --data data.tsv --out again
[ "$(rows file)" = "$(rows again)" ] || fail "the same seed gives another order"
run $how --epochs 3 --data data.tsv --seed 2 --out other
[ "$(rows file)" != "$(rows other)" ] || fail "another seed gives the same order"

# A window of a stream needs less memory than all data.
run train --format criteo --model lr --deterministic --threads 2 --data-in stream --window 1 \
    --epochs 1 --data data.tsv --out stream
between examples 20000 20000
between data_bytes 1 $((memory / 2))

# A cluster reports the memory of the worker that has the most: all data in mode sync, its
# pieces in async. A bad line is counted once, also if every worker reads it, and in all
# passes.
printf 'x\n' | cat data.tsv - >bad.tsv
for mode in sync async; do
    run launch --servers 1 --workers 2 -- train --format criteo --model lr --mode $mode --epochs 3 \
        --data-in memory --data bad.tsv --max-bad-lines 1 --out $mode
    between examples 20000 20000
    between skipped_lines 1 1
    [ $mode = async ] || between data_bytes "$memory" $((memory * 3 / 2))
    between data_bytes $((memory / 3)) $((memory * 3 / 2))
done
