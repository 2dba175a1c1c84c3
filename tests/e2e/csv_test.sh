#!/bin/sh
# CSV in its usual variants: without a header, with several words in a cell, with words
# that mean a missing value, with numbers that are replaced by their logarithm. A saved
# model reads other files in the same way, in one process and on a cluster.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
. "$(dirname "$0")/functions.sh"

awk 'BEGIN {
    srand(7); print "y,user,genres,price,note" >"headed.csv"
    for (i = 0; i < 4000; i++) {
        u = int(rand() * 40); g = int(rand() * 6); h = int(rand() * 6); p = int(rand() * 1000)
        good = rand() < ((g == 2 || h == 2) ? .8 : .2)
        line = (good ? "true" : "false") ",u" u ",g" g "|g" h "," (p < 100 ? "NA" : p) ",none"
        print line >"headed.csv"; print line >"bare.csv"
        printf "%s,%s,g%d|g%d,u%d\n", "none", p < 100 ? "NA" : p, g, h, u >"other.csv"
    }
}'
options='--format csv --lists genres --missing NA,none --numeric price:log --model fm --epochs 3
    --deterministic --threads 2'
names='--columns y,user,genres,price,note'

run train $options --label y --data headed.csv --out headed
run train $options $names --data bare.csv --out bare
cmp headed/save-000001/sparse-0.rows bare/save-000001/sparse-0.rows || fail "a header matters"
"$tug" predict --from headed --data headed.csv >want
"$tug" predict --from bare --data bare.csv >got
cmp want got || fail "bare.csv is predicted in another way"
"$tug" predict --from headed --data other.csv --columns note,price,genres,user >got
cmp want got || fail "other.csv is predicted in another way"
awk -v a="$(auc bare bare.csv)" 'BEGIN { exit !(a > .75) }' || fail "auc $(auc bare bare.csv)"
# With --lists, each of several words in a cell is a feature of its own; without it, the
# whole cell is one word.
run train --format csv $names --missing NA,none --numeric price:log --model fm --epochs 3 \
    --deterministic --threads 2 --data bare.csv --out pairs
! cmp -s pairs/save-000001/sparse-0.rows headed/save-000001/sparse-0.rows ||
    fail "lists make no difference"

# The label says whether two words agree: a linear model can learn that only from a
# crossed column.
awk 'BEGIN {
    srand(3); print "y,a,b,c"
    for (i = 0; i < 6000; i++) {
        a = int(rand() * 6); b = int(rand() * 6)
        print (a == b ? 1 : 0) ",a" a ",b" b (i % 2 ? "" : "|x") ",c" int(rand() * 3)
    }
}' >pairs.csv
lr='--format csv --lists b --model lr --epochs 3 --deterministic --threads 2 --data pairs.csv'
run train $lr --out single
run train $lr --cross-columns 'a*b,b*c*a' --keep-names 1000 --out crossed
awk -v a="$(auc single pairs.csv)" -v b="$(auc crossed pairs.csv)" 'BEGIN { exit !(a < .6 && b > .99) }' ||
    fail "crosses: auc $(auc single pairs.csv), $(auc crossed pairs.csv)"
printf 'c,b,a\nc1,b2|x,a2\nc1,b2,\n' >two.csv
run predict --from crossed --data two.csv --explain
for word in 'a*b=a2*b2' 'a*b=a2*x' 'b*c*a=b2*c1*a2' b=b2; do
    grep -qF "$word" text || fail "--explain does not tell $word: $(cat text)"
done
run train --resume --model lr --deterministic --epochs 4 --cross-columns 'a*b' --data pairs.csv --out crossed
run launch --servers 1 --workers 2 -- train $lr --cross-columns 'a*b,b*c*a' --mode sync --out far
awk -v a="$(auc far pairs.csv)" 'BEGIN { exit !(a > .99) }' || fail "crosses on a cluster: auc $(auc far pairs.csv)"
refused 2 "--cross-columns 'a*c'" train --resume --model lr --deterministic --epochs 5 --out crossed \
    --cross-columns 'a*c' --data pairs.csv
refused 2 '--cross-columns works only' train --format libsvm --data pairs.csv --cross-columns 'a*b'
refused 2 'which is not a feature column of words' train $lr --numeric c --cross-columns 'a*c'
refused 3 'which --cross-columns names' train $lr --cross-columns 'a*d'

run train --resume --deterministic --epochs 4 --data bare.csv --out bare
run launch --servers 1 --workers 2 -- train $options $names --mode sync --data bare.csv --out shared
run eval --from shared --data headed.csv --columns y,user,genres,price,note --max-bad-lines 1

refused 2 "--columns: the header lacks the feature columns 'genres'" predict --from bare \
    --data bare.csv --columns y,user,price
refused 2 '--lists works only' train --format libsvm --data bare.csv --lists a
refused 2 '--list-separator' train --format csv --data bare.csv --lists user --list-separator ab
refused 2 "--missing 'x'" train --resume --deterministic --missing x --data bare.csv --out bare \
    --epochs 5
refused 3 "which --lists names" train --format csv --label y --data headed.csv --lists genre
