#!/bin/sh
# Models with layers beside PyTorch, which computes the same formulas and takes the gradients
# by itself: torch_check.py says how. Skipped where there is no PyTorch (tools/deps --dev).
#
# SPDX-License-Identifier: Apache-2.0
set -eu
# Debian's python3 is the one that its package is for, and need not be the first in PATH.
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import torch' 2>/dev/null; then
        exec "$python" -B "$(dirname "$0")/torch_check.py"
    fi
done
echo "skipped: PyTorch is not there: python3-torch"
exit 77
