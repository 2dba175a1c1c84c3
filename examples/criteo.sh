#!/bin/sh
# Click prediction on Criteo's log, from end to end: train, look at the model, measure, predict.
#
#     examples/criteo.sh FOLDER [DIRECTORY]   # FOLDER has train.tsv and test.tsv; results go to
#                                             # DIRECTORY, which is made (criteo-model)
#
# The lines are Criteo's: label, 13 numbers, 26 words, with tabs. TUG names the command.
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
