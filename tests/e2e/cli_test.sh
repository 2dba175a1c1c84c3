# The command line: exit codes, help, typing errors, origins of values, files of synth.
# SPDX-License-Identifier: Apache-2.0
set -u
tug=${TUG_BINARY:?}
[ -x "$tug" ] || exit 1
unset TUG_CONFIG TUG_ROWS TUG_SEED TUG_OUT TUG_FORMAT
failed=0

# run WANTED_CODE ARGUMENTS...: runs tug; its output is in out and err.
run() {
    wanted=$1
    shift
    "$tug" "$@" >out 2>err
    code=$?
    if [ $code -ne "$wanted" ]; then
        echo "tug $*: exit status $code instead of $wanted"
        cat err
        failed=1
    fi
}

# says FILE TEXT: checks that a line of the last run's FILE (out or err) contains TEXT.
says() {
    if ! grep -qF -- "$2" "$1"; then
        echo "'$2' is missing in:"
        cat "$1"
        failed=1
    fi
}

check() {
    if ! "$@"; then
        echo "failed: $*"
        failed=1
    fi
}

run 2
says err 'usage: tug COMMAND'
run 0 --version
says out 'tug '
run 0 help
says out 'synth'
run 0 --help
says out 'First steps'
run 0 help synth
says out '--rows N'
run 0 synth --help
says out 'Examples'
run 0 synth --rows nonsense --help
run 0 help synth --scdoc
says out '# SYNOPSIS'
run 2 snyth
says err "tug: there is no command 'snyth'; did you mean 'synth'?"
run 2 --rows 3
says err "tug: the first word must be a command, but it is '--rows'"
run 2 help snyth
says err "did you mean 'synth'?"

run 2 synth --rows 3
says err 'tug synth: --out PATH is missing'
run 2 synth --row 3 --out x
says err "tug synth: there is no option '--row'; did you mean '--rows'?"
for command in eval predict 'table stat'; do
    run 2 $command --model m
    says err "there is no option '--model'; did you mean '--from'?"
done
run 2 synth --rows many --out x
says err "tug synth: --rows: 'many' is not a whole number, at least 1"
run 2 synth --rows 3 --out x --format criteos
says err "did you mean 'criteo'?"
run 2 train --format vw --data x
says err "docs/from-xlearn-and-vw.md has a program that converts Vowpal Wabbit's text"
printf '1 2 tag|a x y |b z:3\n' >x.vw
run 3 train --format csv --data x.vw --label y
says err "it looks like Vowpal Wabbit's text"
rm x.vw
run 2 synth --rows 3 --out x --test-rows 3
says err 'must be given together'
run 2 synth --rows 3 --out x stray
says err "unexpected argument 'stray'"
run 2 launch --workers 2 python3 x.py
says err "'python3' is not an option: put a program and its arguments after '--'"
run 2 launch -n 2 -s 1 python3 x.py
says err "3 problems: (1) there is no option '-n'; did you mean '--workers'?"
says err "(2) there is no option '-s'; did you mean '--servers'? (3) 'python3' is not"
run 4 synth --rows 3 --out missing/dir/x
says err 'missing/dir/x'
check [ ! -e x ]

# Later sources of a value replace earlier ones, and config prints the source of each
# value.
printf 'synth:\n  rows: 50\n  seed: 4\n' >run.yaml
run 0 config synth --config run.yaml
says out 'rows: 50'
says out '# run.yaml:2'
TUG_SEED=5 run 0 config synth --config run.yaml --rows 60
says out 'rows: 60'
says out '# command line'
says out 'seed: 5'
says out '# TUG_SEED'
printf 'rows: 5\nsed: 4\n' >bad.yaml
run 2 synth --config bad.yaml --out x
says err "bad.yaml:2: there is no option 'sed'; did you mean 'seed'?"
run 3 synth --config missing.yaml --out x
TUG_SEDE=5 run 2 synth --rows 3 --out x
says err "did you mean 'TUG_SEED'?"

# --config reads the output of `tug config` to the same values.
run 0 config train --data 'a b' - 'c#d' --lr 1e-3 --no-json --separator '"'
cp out train.yaml
run 0 config train --config train.yaml
sed 's/ *# .*//' out >again
sed 's/ *# .*//' train.yaml >before
check cmp -s again before
says out '["a b", "-", "c#d"]'
run 2 config train --epocs 3
says err "did you mean '--epochs'?"

run 0 synth --rows 1000 --out a.tsv --test-rows 100 --test-out b.tsv
says out 'AUC on the test rows'
check [ "$(wc -l <a.tsv)" -eq 1000 ]
check [ "$(wc -l <b.tsv)" -eq 100 ]
run 0 synth --rows 1000 --out c.tsv --json
says out '"command":"synth"'
check cmp -s a.tsv c.tsv
run 0 synth --rows 1000 --out d.csv --format csv
check [ "$(wc -l <d.csv)" -eq 1001 ]
run 0 synth --rows 1000 --out c.tsv.gz
gzip -dc c.tsv.gz | cmp -s - a.tsv || { echo 'c.tsv.gz differs'; failed=1; }
check [ "$(ls | grep -c tmp)" -eq 0 ]

run 2 bench
says err 'one of table'
run 0 bench table --read-keys 1000 --grow-keys 20000 --json
says out '"bytes_per_key_mean":'
TMPDIR=. run 0 bench train --rows 100 --epochs 1 --threads 2
says out '2 threads'
TMPDIR=. run 0 bench train --rows 100 --epochs 1 --json
says out '"ffm":[{"threads":1,"examples_per_second":'
check [ "$(ls | grep -c tug-bench)" -eq 0 ]
run 0 bench van --seconds 0.003 --max-bytes 4M
says out '4096 KB, 8 in flight: socket '
run 0 bench van --seconds 0.003 --max-bytes 256K --json
says out '"aes_128_gcm":{"encrypt":'
run 0 bench kvstore --max-bytes 1M --servers 2 --workers 2
says out ' workers on 2 servers'
run 0 bench cluster --seconds 0.003 --keys 5000
says out 'start to first push '
run 0 bench cluster --seconds 0.003 --keys 5000 --servers 2 --workers 2 --json
says out '"name":"with cached key lists, pull","per_second":'
run 0 bench shrink --table-rows 20000
says out 'shrink  0.0 M rows in '
run 0 bench shrink --table-rows 20000 --json
says out '"rows":20000,"usual_push_ms":'
TMPDIR=. run 0 bench save --table-rows 2000 --json
says out '"save_ratio":'
check [ "$(ls | grep -c tug-bench)" -eq 0 ]

# A signal (INT, TERM, HUP) ends a command that scores data, with one sentence; no file is left behind.
run 0 synth --rows 200 --out few.tsv
run 0 train --data few.tsv --format criteo --epochs 1 --model lr --out scorer
for command in eval 'predict --out scores' predict; do
    for number in INT TERM HUP; do
        mkfifo data.pipe
        env --default-signal=INT "$tug" ${command%% *} --from scorer --data data.pipe --format criteo \
            $(echo "$command" | cut -d' ' -s -f2-) >out 2>err &
        process=$!
        exec 3>data.pipe # waits until the command reads
        kill -$number $process
        code=0
        wait $process || code=$?
        exec 3>&-
        rm data.pipe
        check [ $code -eq 130 ]
        says err "tug ${command%% *}: interrupted"
        check [ "$(wc -l <err)" -eq 1 ]
        check [ -z "$(ls | grep scores)" ]
    done
done

# On a full disk, no file is left behind, and the error gives the reason.
(
    ulimit -f 64
    "$tug" synth --rows 100000 --out full.tsv 2>err
)
check [ $? -eq 4 ]
says err 'full.tsv'
check [ ! -e full.tsv ]
check [ -z "$(ls | grep full)" ]
if [ -w /dev/full ]; then
    "$tug" help >/dev/full 2>err
    check [ $? -eq 4 ]
    says err 'standard output'
fi
exit $failed
