#!/bin/sh
# Data over http, S3 and WebHDFS from a server that checks requests and spoils its answers
# (web_server.py): the model equals that of the same local files, and data that cannot be
# read gives one sentence without secrets.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
tug=$TUG_BINARY
here=$(dirname "$0")
if ! command -v python3 >/dev/null; then
    echo "skipped: Python is not there: python3"
    exit 77
fi
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
export HOME="$PWD" no_proxy=127.0.0.1

fail() {
    echo "$@"
    exit 1
}

# Makes the files of a table, some of them compressed.
mkdir -p files/t/day=1 files/t/day=2/hour=7 files/t/_temporary files/cut
"$tug" synth --rows 3000 --format csv --out files/all.csv >/dev/null 2>&1
head -1 files/all.csv >head
part() { # FILE FIRST LAST
    { cat head; sed -n "$2,$3p" files/all.csv; } >"$1"
}
part files/t/day=1/a.csv 2 900
part "files/t/day=1/b & ü+%.csv" 901 1700
part files/t/day=2/hour=7/c.csv 1701 2500
part files/t/day=2/d.csv 2501 3001
gzip -c files/t/day=2/d.csv >files/t/day=2/d.csv.gz
rm files/t/day=2/d.csv
: >files/t/_SUCCESS
echo no data >files/t/_temporary/x
: >files/empty.csv
cp files/all.csv files/cut/cut.csv

# The server ends when this script ends in any way, because then the other end of its
# input closes.
mkfifo leash
exec 9<>leash
python3 "$here/web_server.py" files port log <leash 9>&- &
for wait in $(seq 100); do
    [ -e port ] && break
    sleep 0.05
done
[ -e port ] || fail "the server did not start"
at=127.0.0.1:$(cat port)

export AWS_ACCESS_KEY_ID=AKTUGTEST AWS_SECRET_ACCESS_KEY='not+a/secret' \
    AWS_SESSION_TOKEN='t0ken==' AWS_REGION=eu-test-1 AWS_ENDPOINT_URL="http://$at" \
    HADOOP_USER_NAME=hadoop-user

train() { # OUT DATA...
    out=$1
    shift
    "$tug" train --format csv --label label --model fm --epochs 2 --deterministic --threads 2 \
        --out "$out" --data "$@" >text 2>&1 || fail "train $*: $(cat text)"
    ! grep -qF -e 'not+a/secret' -e t0ken text || fail "a secret is told: $(cat text)"
}
same() { # WHAT NAME
    cmp "$1/save-000001/sparse-0.rows" "$2/save-000001/sparse-0.rows" || fail "$2 is not $1"
}
refused() { # EXIT WORDS ADDRESS [ARGUMENTS]
    code=$1 words=$2
    shift 2
    rc=0
    timeout 60 "$tug" eval --from whole --data "$@" >text 2>&1 || rc=$?
    [ $rc = "$code" ] || fail "eval $*: exit $rc, not $code: $(cat text)"
    grep -qF -e "$words" text || fail "eval $*: does not say '$words': $(cat text)"
    ! grep -qF -e 'not+a/secret' -e t0ken -e hidden= text || fail "a secret is told: $(cat text)"
}

train table files/t
train whole files/all.csv

# tug gives up on a server that stays busy for some time, and on one that endlessly sends
# a few bytes at a time; the error has the first reason. The rest of this script runs
# meanwhile.
given_up=
for fault in busy worse drip; do
    {
        rc=0
        timeout 60 "$tug" eval --from whole --data "http://$at/$fault/all.csv" >$fault 2>&1 || rc=$?
        echo "exit $rc" >>$fault
    } &
    given_up="$given_up $!"
done

# tug repeats the request after each of these faults, because they are temporary.
for fault in fine flaky short cut plain200 elsewhere; do
    train "http-$fault" "http://$at/$fault/all.csv"
    same whole "http-$fault"
done
grep -q '^50[03] /flaky/' log || fail "the server was never busy"
train stream "http://$at/cut/all.csv" --data-in stream --window 1
grep -c '^206 /cut/all.csv bytes=[1-9]' log >/dev/null || fail "reading did not go on where it was"

# tug also gives up on a server that sends a byte now and then, after it has asked once
# more.
TUG_WEB_SECONDS=0.5 refused 4 'the server sent only' "http://$at/trickle/all.csv"

# A server may not redirect to an address of this machine, unless an option allows it.
refused 4 'redirects to 127.0.0.2' "http://$at/near/all.csv"
(
    export TUG_WEB_ANY_HOST=1
    train near "http://$at/near/all.csv"
)
same whole near
train near-option "http://$at/near/all.csv" --web-any-host
same whole near-option
refused 4 'allow it by --web-any-host' "http://$at/near/all.csv"

# S3: lists of two keys each, names that need quoting, a prefix, a pattern, and a single
# object.
train s3 s3://bucket/t
same table s3
train s3-one s3://bucket/all.csv
same whole s3-one
train s3-cut s3://bucket/cut/
same whole s3-cut
train s3-days 's3://bucket/t/day=[12]'
same table s3-days
grep -q 'continuation-token' log || fail "one page was enough"

# AWS's files have the credentials if the environment does not.
mkdir .aws
printf '[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n[tug]\n%s\n%s\n%s\n' \
    'aws_access_key_id = AKTUGTEST' 'aws_secret_access_key = not+a/secret' \
    'aws_session_token = t0ken==' >.aws/credentials
printf '[profile tug]\nregion = eu-test-1\nendpoint_url = http://%s\n[profile role]\nrole_arn = x\n' "$at" >.aws/config
(
    unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_REGION AWS_ENDPOINT_URL
    export AWS_PROFILE=tug
    train s3-files s3://bucket/t
    same table s3-files
    AWS_PROFILE=role refused 2 'gets its keys by role_arn' s3://bucket/t
    AWS_PROFILE=gone refused 2 "AWS_PROFILE is 'gone'" s3://bucket/t
    AWS_PROFILE='' AWS_ENDPOINT_URL="http://$at" refused 4 '403' s3://bucket/t
    AWS_SHARED_CREDENTIALS_FILE=nosuch refused 4 'no keys were found' s3://bucket/t
)
AWS_PROFILE=gone train s3-both s3://bucket/t
same table s3-both

# WebHDFS: paths at each depth of the tree.
train hdfs "webhdfs://$at/t"
same table hdfs
train hdfs-one "webhdfs://$at/all.csv"
same whole hdfs-one
train hdfs-cut "webhdfs://$at/cut"
same whole hdfs-cut

# Workers read ranges of the same files; then through a command; then again with --resume.
before=$(grep -c . log)
"$tug" launch --servers 1 --workers 2 -- train --format csv --label label --model fm --epochs 2 \
    --mode sync --data "http://$at/cut/all.csv" --out shared >text 2>&1 || fail "$(cat text)"
"$tug" launch --servers 1 --workers 2 -- train --format csv --label label --model fm --epochs 2 \
    --data s3://bucket/t --out shared2 >text 2>&1 || fail "$(cat text)"
[ "$(grep -c . log)" -gt "$before" ] || fail "the workers asked for nothing"
"$tug" eval --from shared2 --data files/t --json >text 2>&1 || fail "$(cat text)"
train filtered "http://$at/fine/all.csv" --pipe-command cat
same whole filtered
"$tug" train --resume --deterministic --epochs 3 --out s3 --data s3://bucket/t >text 2>&1 || fail "$(cat text)"
echo 'more' >>files/t/day=1/a.csv
rc=0
"$tug" train --resume --deterministic --epochs 4 --out s3 --data s3://bucket/t >text 2>&1 || rc=$?
[ $rc = 3 ] && grep -q "size of 'a.csv' is" text || fail "other data was not noticed: $rc $(cat text)"

refused 3 'the server has none (404)' "http://$at/fine/nothing.csv?hidden=1"
refused 4 'the server refuses' "http://$at/forbidden/all.csv"
refused 4 'redirects too often' "http://$at/circle/all.csv"
refused 3 'changed since the run began' "http://$at/changes/all.csv"
refused 3 'sends bytes that were not requested' "http://$at/other/all.csv"
refused 3 'does not send the length of the file' "http://$at/unknown/all.csv"
refused 3 'is empty' "http://$at/fine/empty.csv"
refused 2 'a name or a password' "http://me:hidden=@$at/fine/all.csv"
refused 2 'hadoop fs -cat' hdfs://host/path
refused 2 'only from http' ftp://host/path
refused 3 'nothing is in it' s3://bucket/nothing
refused 3 'the pattern matches nothing' 's3://bucket/t/*.parquet'
refused 3 'no such bucket' s3://none/t
refused 4 'set AWS_REGION' s3://far/t
refused 3 'nothing is in it' "webhdfs://$at/nothing"
AWS_SECRET_ACCESS_KEY=not+a/secret2 refused 4 '403 SignatureDoesNotMatch' s3://bucket/t
AWS_SECRET_ACCESS_KEY='' refused 2 'only one of AWS_ACCESS_KEY_ID' s3://bucket/t
HADOOP_USER_NAME=nobody refused 4 '401 SecurityException' "webhdfs://$at/t"

wait $given_up
told() { # FAULT WORDS
    grep -q "tried 7 times: $2" "$1" && grep -q 'exit 4' "$1" || fail "$1: $(cat "$1")"
}
told busy 'the server answers with status 503'
told worse 'the server answers with status 500'
told drip ''

# A widely used server (nginx), if it is installed; also by TLS, whose certificate must be
# trusted.
nginx=$(command -v nginx || ls /usr/sbin/nginx 2>/dev/null || true)
if [ -z "$nginx" ] || ! command -v openssl >/dev/null; then
    echo "skipped: nginx or openssl is not there: nginx-light, openssl"
    exit 0
fi
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem 2>/dev/null
chmod 755 . files && chmod -R a+rX files
begin_nginx() { # PORT: serves at PORT, and with TLS at the next port
    port=$1
    cat >nginx.conf <<END
daemon off; master_process off; pid $PWD/nginx.pid; error_log $PWD/nginx.log;
events { }
http {
    access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3;
    uwsgi_temp_path t4; scgi_temp_path t5;
    server {
        listen 127.0.0.1:$port; listen 127.0.0.1:$((port + 1)) ssl;
        ssl_certificate $PWD/cert.pem; ssl_certificate_key $PWD/key.pem; root $PWD/files;
    }
}
END
    "$tug" launch --supervise -- "$nginx" -p "$PWD" -c "$PWD/nginx.conf" <leash 9>&- >nginx.out 2>&1 &
    server=$!
    for wait in $(seq 300); do
        [ -s nginx.pid ] && return 0
        kill -0 $server 2>/dev/null || return 1
        sleep 0.1
    done
    kill $server
    return 1
}
begin_nginx $((24000 + 2 * ($$ % 497))) || begin_nginx $((25000 + 2 * ($$ % 497))) ||
    fail "nginx does not start: $(cat nginx.log nginx.out)"
train nginx "http://127.0.0.1:$port/all.csv"
same whole nginx
port=$((port + 1))
SSL_CERT_FILE=$PWD/cert.pem train nginx-tls "https://127.0.0.1:$port/all.csv" \
    --test "https://127.0.0.1:$port/t/day=1/b%20&%20%C3%BC+%25.csv"
same whole nginx-tls
refused 4 'certificate' "https://127.0.0.1:$port/all.csv"
refused 3 'the server has none (404)' "http://127.0.0.1:$((port - 1))/nothing.csv"
