#!/bin/sh
# Compares models with layers with PyTorch, which computes the same formulas and their
# gradients itself: see torch_check.py. Skipped where PyTorch is missing (tools/deps
# --dev).
#
# SPDX-License-Identifier: Apache-2.0
set -eu
# Debian's PyTorch is for Debian's python3, which need not be the first in PATH.
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import torch' 2>/dev/null; then
        exec "$python" -B "$(dirname "$0")/torch_check.py"
    fi
done
echo "skipped: PyTorch is not there: python3-torch"
exit 77
