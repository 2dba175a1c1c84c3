#!/bin/sh
# Functions of the scripts in this folder: they run the command, and print its output when
# it behaves otherwise than expected. A script reads them by:
#
#     . "$(dirname "$0")/functions.sh"
#
# SPDX-License-Identifier: Apache-2.0
tug=$TUG_BINARY

fail() {
    echo "$@"
    exit 1
}
run() { # ARGUMENTS
    "$tug" "$@" >text 2>&1 || fail "tug $*: $(cat text)"
}
refused() { # EXIT WORDS ARGUMENTS
    code=$1 words=$2 rc=0
    shift 2
    "$tug" "$@" >text 2>&1 || rc=$?
    [ $rc = "$code" ] || fail "tug $*: exit $rc, not $code: $(cat text)"
    grep -qF -e "$words" text || fail "tug $*: does not say '$words': $(cat text)"
}
auc() { # MODEL FILE
    run eval --from "$1" --data "$2" --json
    sed -n 's/.*"auc": *\([0-9.]*\).*/\1/p' text
}
