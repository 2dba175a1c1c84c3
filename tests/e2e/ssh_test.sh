#!/bin/sh
# tug launch over real ssh: this test runs an sshd of its own on loopback, with keys that
# it makes. It is skipped if sshd is missing or refuses the login. The processes for which
# it searches the machine have this script's process number in their command lines,
# because another run of the test may run the same commands.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
tug=$TUG_BINARY
sshd=$(command -v sshd || ls /usr/sbin/sshd 2>/dev/null || true)
if [ -z "$sshd" ] || ! command -v ssh >/dev/null || ! command -v ssh-keygen >/dev/null; then
    echo "skipped: sshd is not there: openssh-server"
    exit 77
fi
dir=$PWD
here=$dir/ssh
mkdir -m 700 "$here" "$dir/home"
ssh-keygen -q -t ed25519 -N '' -f "$here/host" && ssh-keygen -q -t ed25519 -N '' -f "$here/user"
cp "$here/user.pub" "$here/authorized"
# The ssh that the launcher finds: it uses this test's key.
mkdir bin
cat >bin/ssh <<END
#!/bin/sh
exec $(command -v ssh) -i $here/user -oStrictHostKeyChecking=no \\
    -oUserKnownHostsFile=/dev/null -oLogLevel=ERROR "\$@"
END
chmod +x bin/ssh
PATH=$dir/bin:$PATH
export PATH XDG_RUNTIME_DIR="$dir"
# sshd ends when this script ends in any way, because then the other end of its input
# closes.
mkfifo leash
exec 9<>leash
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd

begin_sshd() { # PORT; sshd cannot choose a free port itself
    port=$1
    cat >"$here/sshd.conf" <<END
Port $port
ListenAddress 127.0.0.1
HostKey $here/host
AuthorizedKeysFile $here/authorized
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
SetEnv HOME=$dir/home
END
    "$tug" launch --supervise -- "$sshd" -D -f "$here/sshd.conf" -E "$here/log" <leash 9>&- &
    server=$!
    for wait in $(seq 300); do
        ssh -oBatchMode=yes -p "$port" 127.0.0.1 true 2>"$here/try" && return 0
        kill -0 $server 2>/dev/null || return 1
        sleep 0.1
    done
    kill $server
    return 1
}

begun=false
for range in $(seq 21 30); do # another run of this test may use the port
    begin_sshd $((range * 1000 + $$ % 997)) && begun=true && break
done
$begun || {
    echo "skipped: sshd does not let us in: $(tail -1 "$here/log") $(tail -1 "$here/try")"
    exit 77
}

fail() {
    echo "$1"
    cat "$dir/out" "$dir/err" 2>/dev/null || true
    exit 1
}

gone() { # TEXT: whether no process has it in its command line
    i=0
    while pgrep -f -- "$1" >/dev/null; do
        i=$((i + 1))
        [ $i -lt 3000 ] || fail "there is still: $(pgrep -af -- "$1")"
        sleep 0.02
    done
}
mkdir work
"$tug" synth --rows 3000 --format libsvm --out work/day.svm >/dev/null
cat >hosts <<END
127.0.0.1:$port
END
train="train --data day.svm --format libsvm --model lr"

# All hosts use the same path; launch makes keys for the run and passes them on standard
# input.
cd work
"$tug" launch --hosts ../hosts --cluster ssha$$ --servers 1 --workers 2 --log-dir ../logs -- \
    $train --epochs 2 --json >../out 2>../err || fail "a run over ssh failed"
cd ..
grep -q '"workers":2,"servers":1' out || fail "the result is not there"
grep -q 'joined' logs/scheduler.log || fail "the scheduler's log is not there"
gone "cluster=ssha$$"

# A run with a copy of the workspace, and one with programs.
"$tug" launch --hosts hosts --cluster sshb$$ --sync work --servers 1 --workers 1 -- \
    sh -c 'echo $DMLC_ROLE in $(pwd) with $(ls)' >out 2>err || fail "--sync failed"
grep -q '^\[worker 0\] worker in .*/.tug/sshb'$$'/work with day.svm$' out ||
    fail "the workspace is not there"

# The exit code of a remote process reaches the launcher; a killed launcher leaves no
# process on the hosts.
code=0
"$tug" launch --hosts hosts --servers 1 --workers 1 -- \
    sh -c "test \$DMLC_ROLE = worker && exit 3; exec sleep 1000.25$$" >out 2>err || code=$?
[ $code = 3 ] || fail "exit code $code instead of 3"
gone "sleep 1000[.]25$$"
"$tug" launch --hosts hosts --cluster sshd$$ --servers 1 --workers 1 -- \
    sh -c "echo here; exec sleep 1000.75$$" >out 2>err &
pid=$!
until [ "$(grep -c here out)" = 3 ]; do sleep 0.02; done

# While a cluster runs, it cannot be started again, unless --force ends the first run.
code=0
"$tug" launch --hosts hosts --cluster sshd$$ --servers 1 --workers 1 -- true >out2 2>err2 || code=$?
[ $code = 2 ] || fail "exit code $code instead of 2: $(cat err2)"
grep -q 'of an earlier run of this cluster still exists' err2 || fail "$(cat err2)"
kill -9 $pid
wait $pid 2>/dev/null || true
gone "sleep 1000[.]75$$"
