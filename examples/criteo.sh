#!/bin/sh
# Click prediction on Criteo's log: trains a model, shows its largest features, evaluates it, and predicts.
#
#     examples/criteo.sh FOLDER [DIRECTORY]   # FOLDER has train.tsv and test.tsv; the script makes DIRECTORY
#                                             # (criteo-model) for the results
#
# Lines have Criteo's format: label, 13 numbers and 26 words, with tabs. TUG is the command's path.
# SPDX-License-Identifier: Apache-2.0
set -eu
if [ $# -lt 1 ]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 2
fi
data=$1 out=${2-criteo-model} tug=${TUG-tug}
mkdir "$out"
"$tug" train --format criteo --data "$data/train.tsv" --valid 0.1 --model fm --keep-names 100000 --out "$out/model"
"$tug" table top C1 --from "$out/model"
"$tug" eval --from "$out/model" --data "$data/test.tsv"
"$tug" predict --from "$out/model" --data "$data/test.tsv" --out "$out/predictions"
echo "predictions: $(wc -l <"$out/predictions")"
