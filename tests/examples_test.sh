#!/bin/sh
# Builds the examples by the commands in their comments, with warnings as errors, and runs
# them on a cluster.
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
cc=$2
root=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tug-examples.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
export TUG_WAIT_SECONDS=90 LD_LIBRARY_PATH="$build"

# Runs examples/$1.c with $2 servers and $3 workers; its sorted output goes to
# $tmp/$1.out.
example() {
    "$cc" -Wall -Wextra -Werror -I"$root/include" -o "$tmp/$1" "$root/examples/$1.c" -L"$build" -ltug -lm
    timeout 100 "$root/examples/run" "$2" "$3" "$tmp/$1" >"$tmp/said" || { cat "$tmp/said"; exit 1; }
    sort "$tmp/said" >"$tmp/$1.out"
}

example pushpull 2 2
diff "$tmp/pushpull.out" - <<END
worker 0: 2 2 2
worker 1: 2 2 2
END

example handler 1 2
sed 's/(.*)/(HOST)/' "$tmp/handler.out" | diff - "$root/tests/golden/handler.out"
# An example scores a saved model in C, and another follows a model in Python while it is
# trained.
"$cc" -Wall -Wextra -Werror -I"$root/include" -o "$tmp/score" "$root/examples/score.c" -L"$build" -ltug
"$build/tug" synth --rows 2000 --format libsvm --out "$tmp/day.txt" >"$tmp/said" 2>&1
"$build/tug" train --data "$tmp/day.txt" --format libsvm --model fm --epochs 1 --out "$tmp/model" --quiet >"$tmp/said" 2>&1
sed 5q "$tmp/day.txt" | sed 's/^[^ ]* //; s/:[^ ]*//g' >"$tmp/keys.txt"
sed 5q "$tmp/day.txt" | sed 's/:[^ ]*/:1/g' >"$tmp/five.txt"
timeout 100 "$tmp/score" "$tmp/model" <"$tmp/keys.txt" | sed 's/ by save 1$//' >"$tmp/score.out"
# Both programs round their output in different ways: the sixth digit may differ.
"$build/tug" predict --from "$tmp/model" --data "$tmp/five.txt" >"$tmp/predicted"
paste "$tmp/score.out" "$tmp/predicted" |
    awk '{ d = $1 - $2 } NF != 2 || d > 1.5e-6 || d < -1.5e-6 { print; bad = 1 } END { exit bad || NR != 5 }'
python=/usr/bin/python3
[ -x $python ] || python=python3
if [ -d "$build/python/tug" ]; then
    (cd "$tmp" && PYTHONPATH="$build/python" TUG_BINARY="$build/tug" TMPDIR="$tmp" timeout 100 $python \
        "$root/examples/follow.py" 2>&1) | tail -1 | sed 's/[0-9][0-9]*/N/g; s/a base/a delta/' |
        diff - "$root/tests/golden/follow.out"
fi

# The example runs in one process, and on a cluster of tug launch; it fails if its error
# exceeds the bound that it states.
"$cc" -Wall -Wextra -Werror -I"$root/include" -o "$tmp/mf" "$root/examples/matrix_factorisation.c" -L"$build" -ltug -lm
timeout 100 "$tmp/mf" | grep -q '^RMSE .* below 0.70'
timeout 100 "$build/tug" launch --servers 2 --workers 2 -- "$tmp/mf" | grep -q 'RMSE .* below 0.70'

# Runs the whole example of Criteo's log: with small generated data, and with the real log
# if it is installed.
mkdir "$tmp/made"
"$build/tug" synth --rows 4000 --out "$tmp/made/train.tsv" >/dev/null
"$build/tug" synth --rows 500 --out "$tmp/made/test.tsv" >/dev/null
TUG="$build/tug" "$root/examples/criteo.sh" "$tmp/made" "$tmp/criteo" >"$tmp/said" 2>&1 || { cat "$tmp/said"; exit 1; }
tail -1 "$tmp/said" | grep -qx 'predictions: 500'
real=${TUG_SHARED-/nonexistent}/data/criteo
if [ -f "$real/train.tsv" ]; then
    TUG="$build/tug" "$root/examples/criteo.sh" "$real" "$tmp/real" >"$tmp/said" 2>&1 || { cat "$tmp/said"; exit 1; }
else
    echo "skipped: no data set criteo in TUG_SHARED (a folder 'shared' beside the checkout)"
fi

# Runs the Python examples whose packages are installed. Debian's python3 is the one for
# which its packages are made.
said='built and run: pushpull, handler, score, follow, matrix_factorisation, criteo.sh'
for python in python3 /usr/bin/python3; do
    PYTHONPATH="$build/python" "$python" -c 'import tug.sklearn' 2>"$tmp/lacks" && break
done
if [ -s "$tmp/lacks" ]; then
    echo "skipped: scikit-learn is not there: python3-sklearn (examples/sklearn_grid.py)"
else
    PYTHONPATH="$build/python" timeout 100 "$python" "$root/examples/sklearn_grid.py" >"$tmp/grid.out"
    grep -q '^factorization machine.* test AUC 0\.8' "$tmp/grid.out" || { cat "$tmp/grid.out"; exit 1; }
    said="$said, sklearn_grid"
fi
echo "$said"
