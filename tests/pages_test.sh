#!/usr/bin/env bash
# Runs what pages of the documentation show: a block of code whose first line is a comment with a
# file's name becomes this file, and lines that begin with "$" are run, page by page, each page's in
# its own folder and in its order. So what somebody copies from a page has been run.
#
#   pages_test.sh BUILD [PYTHON CC [CXX]]    without these, the pages of commands alone
#
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

build=$1 python=${2-} cc=${3-} cxx=${4-}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What a person has who has installed it: tug, python3, cc and pkg-config know where it is.
mkdir "$work/bin"
export PATH=$work/bin:$build:$PATH PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 \
    LD_LIBRARY_PATH=$build PKG_CONFIG_PATH=$work/bin TUG_WAIT_SECONDS=90
printf 'Name: tug\nDescription: of this build\nVersion: 0\nCflags: -I%s\nLibs: -L%s -ltug\n' \
    "$root/include" "$build" > "$work/bin/tug.pc"
printf 'Name: tug-ps\nDescription: of this build\nVersion: 0\nRequires: tug\nCflags: -I%s\nLibs: -pthread\n' \
    "$root/include/tug/compat" > "$work/bin/tug-ps.pc"
[ -z "$python" ] || ln -s "$python" "$work/bin/python3"
[ -z "$cc" ] || ln -s "$cc" "$work/bin/cc"
[ -z "$cxx" ] || ln -s "$cxx" "$work/bin/c++"

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

write_programs() {
    awk '/^```/ { inside = !inside; first = inside; file = ""; next }
         first  { first = 0; if ($0 ~ /^(#|\/\/) [a-z_]+\.(py|c|cc|sh)$/) file = $2 }
         inside && file != "" { print > file }' "$1"
}

# $1: the page; then a command that looks at what a line ($line) has said, in `out`.
run_lines() {
    local page=$1 n=0
    shift
    write_programs "$root/docs/$page"
    while IFS= read -r line; do
        n=$((n + 1))
        if ! timeout 120 bash -c "$line" > out 2>&1 || ! "$@"; then
            echo "docs/$page: this line failed: $line"
            cat out
            exit 1
        fi
    done < <(sed -n 's/^    \$ \(.*\)/\1/p' "$root/docs/$page")
    [ "$n" -gt 0 ] || { echo "docs/$page has no line that begins with '\$'"; exit 1; }
    echo "docs/$page: $n lines ran"
}

begin() {
    mkdir "$work/$1"
    cd "$work/$1"
}

begin from-xlearn-and-vw.md
make_data 1 4000 train
make_data 2 1000 valid
cp valid.csv test.csv
scores_of_all() {
    [[ $line != "tug predict"* || $(wc -l < scores) == 1000 ]]
}
run_lines from-xlearn-and-vw.md scores_of_all

if [[ -z $cc || -z $cxx ]]; then
    echo "skipped: docs/kvapp.md, docs/from-ps-lite.md: they take compilers without sanitizers"
else
    begin kvapp.md
    both_sums() {
        [[ $line != *./sums ]] || [ "$(grep -c 'worker [01]: 2 4$' out)" = 2 ]
    }
    run_lines kvapp.md both_sums
    begin from-ps-lite.md
    all_steps() {
        case $line in
        "tug launch"*) [ "$(grep -c 'worker [012]: -15 -30$' out)" = 3 ] ;;
        *DMLC_ROLE*) grep -q 'worker 0: -5 -10$' out ;;
        esac
    }
    run_lines from-ps-lite.md all_steps
fi

if [[ -z $python || -z $cc || ! -f $build/python/tug/_build.py ]]; then
    echo "skipped: docs/from-mxnet.md, from-paddle.md: they take the Python package, and a compiler without sanitizers"
    exit 0
fi
begin from-mxnet.md
# The sums that the page's programs must come to: of the ranks' gradients, in each kind of store.
as_added_up() {
    case $line in
    *" local") grep -q 'weight -5.0, row 1000 of the table -5.0' out ;;
    *dist_sync) grep -q 'weight -7.5, row 1001 of the table -2.5' out && [ "$(grep -c 'weight -7.5' out)" = 2 ] ;;
    *dist_async) [ "$(grep -c 'worker . of 3: weight' out)" = 3 ] ;;
    *./sum) [ "$(grep -c 'the last of the sum is 12$' out)" = 2 ] ;;
    esac
}
run_lines from-mxnet.md as_added_up

begin from-paddle.md
ln -s "$root/examples" examples
for n in 0 1 2 3; do
    awk -v seed="$n" 'BEGIN {
        srand(seed)
        for (i = 0; i < 500; i++) {
            u = int(rand() * 60); m = int(rand() * 40)
            y = rand() < 1 / (1 + exp(-2.5 * sin(u) - 1.5 * cos(m)))
            printf "%d\t%d\t%d\tM\t25\t4\t99\t1999\tA|B\n", y, u, m
        }
    }' > "part-$n"
done
mv part-3 test.tsv
# Inference has the AUC that training said; the same of a model that `tug eval` measures.
as_trained() {
    case $line in
    *fleet_ctr.py*) auc=$(grep -o 'test AUC 0.*' out) && [ -n "$auc" ] ;;
    *fleet_ctr_infer.py*) [ "$(grep -o 'test AUC .*' out)" = "$auc" ] ;;
    "tug eval"*) grep -q 'auc 1.00000' out ;;
    *wrapper.py) grep -qx '32.0' out ;;
    esac
}
run_lines from-paddle.md as_trained
