#!/bin/sh
# Runs an end-to-end script in a new folder, which is removed afterwards.
# SPDX-License-Identifier: Apache-2.0
set -eu
dir=$(mktemp -d "${TMPDIR:-/tmp}/tug-e2e.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
sh "$1"
