#!/bin/sh
# Reads the files of --tfevents by protoc, and by a CRC of its own: see tfevents_check.py.
# Skipped where protoc is missing (tools/deps --dev).
#
# SPDX-License-Identifier: Apache-2.0
set -eu
if ! command -v protoc >/dev/null; then
    echo "skipped: protoc is not there: protobuf-compiler"
    exit 77
fi
exec python3 -B "$(dirname "$0")/tfevents_check.py"
