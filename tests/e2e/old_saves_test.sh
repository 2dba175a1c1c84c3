#!/bin/sh
# Saves that an earlier version of tug made (tests/golden/saves) still work: they give the
# predictions that they gave in that version. A run that resumes from one takes its options
# from the save alone, and ends with the same options, plan and predictions as in that
# version. (Predictions of runs on a cluster are not compared: they differ each time.)
#
# TUG_SAVES_WRITE=1 makes the saves that `ways` names and that are missing, and their lines
# of tests/golden/saves/sums. Never make an old save again: it stands for users' saves.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
. "$(dirname "$0")/functions.sh"
saves=$(cd "$(dirname "$0")/../golden/saves" && pwd)
cp "$saves"/*.csv .
export TUG_KERNELS=ref # the same floats on every CPU
# Layers are trained by OpenBLAS, whose results differ in some bits between types of CPU. The sums were made with its
# AVX-512 kernels. Without these a resumed run's model with layers is not compared.
if grep -qw avx512f /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=SkylakeX
    layers=none
else
    layers='mlp wide deepfm dcn'
    echo "without AVX-512 the predictions of these resumed models are not compared: $layers"
fi

# NAME SAVE KIND OPTIONS: SAVE is the number of the save that is kept (2 is in the middle of
# a pass if the run saves every few batches), KIND is "cluster" or "-" (one process).
ways() {
    cat <<'END'
lr      1 -       --model lr --drop buy,u --weight-column w --optimizer ftrl --l1 0.1 --deterministic
sgd     1 -       --model lr --optimizer sgd --lr 0.0001 --loss squared --schedule poly --schedule-a 0.5 --reduce mean --deterministic
momentum 1 -      --model fm --optimizer momentum:beta1=0.8 --lr 0.01 --schedule linear --schedule-a 0.1 --schedule-b 0.2 --deterministic
fm      1 -       --model fm --optimizer adam:beta1=0.5 --schedule exp --schedule-a 0.9 --schedule-b 2 --seed 123456789012345678 --deterministic
mean    2 -       --model fm --average 5 --valid 2/5 --save-every 3batches --keep 9 --max-bad-lines 3 --deterministic
ffm     1 -       --model ffm --no-normalize --latent-lr 0.05 --l2 0.001 --prior 0.5 --optimizer adagrad:n0=0.5 --valid 0.2 --patience 1 --deterministic
mlp     1 -       --model mlp --label click,buy --drop w,u --hidden 4,3 --tower 2 --task-weights 1,0.5 --deterministic
wide    1 -       --model wide_deep --hidden 4 --batch-norm --pooling mean --dropout 0.25 --batch 32 --deterministic
deepfm  1 -       --model deepfm --hidden 4 --data-norm --dense-optimizer rmsprop:beta2=0.9 --dense-lr 0.01 --init 0.02 --deterministic
dcn     1 -       --model dcn --hidden 4 --cross 2 --dims city=3 --optimizer rmsprop --deterministic
stream  2 -       --model fm --data-in stream --window 1 --save-every 3batches --keep 9 --deterministic
merged  1 -       --model lr --merge-ids u:2 --deterministic
async   1 -       --model fm --cross-columns city*tags --schedule discexp --schedule-a 0.5 --schedule-b 1
table   1 -       --model fm --table accessor=ctr;entry=count:2
living  1 -       --model lr --table entry=count:3 --deterministic
sync    1 cluster --model fm --mode sync --epochs 2
ssp     1 cluster --model fm --mode ssp:3 --in-flight 2
half    1 cluster --model lr --mode half-async
geo     1 cluster --model fm --mode geo:2
elastic 1 cluster --model fm --mode elastic:2:0.5
bf16    1 cluster --model fm --rules server --values bf16
dense   1 cluster --model deepfm --hidden 4 --dense-staleness 2
dealt   1 cluster --model lr --shuffle global --shuffle-by u
END
}
usual='--format csv --label click --drop buy,w,u --numeric age --lists tags --batch 8 --epochs 2 --threads 1
       --out'

data_of() { # NAME
    case $1 in merged) echo pairs.csv ;; *) echo data.csv ;; esac
}

# make NAME SAVE KIND OPTIONS
make() {
    name=$1 save=save-00000$2 kind=$3
    shift 3
    case "$*" in *'--model lr'*) ;; *) set -- "$@" --dim 2 ;; esac
    if [ "$kind" = cluster ]; then
        run launch --servers 1 --workers 1 --cluster "old-saves-$$" -- train --data "$(data_of "$name")" $usual "$name" "$@"
    else
        run train --data "$(data_of "$name")" $usual "$name" "$@"
    fi
    mkdir -p "$saves/$name"
    cp -r "$name/$save" "$saves/$name"
    rm -rf "$name"
}

# about MANIFEST: the options and the plan of a run
about() {
    sed -n '/^  "options"/,/^  }/p; /^  "plan"/,/^  }/p' "$1"
}
scores() { # NAME: the checksum of a save's predictions
    run predict --from "$1" --data data.csv --out scores
    cksum <scores
}

# check NAME SAVE KIND OPTIONS: the line of `sums` that this program gives
check() {
    name=$1
    cp -r "$saves/$name" .
    about "$name"/save-*/manifest.json >was
    before=$(scores "$name")
    words="train --data $(data_of "$name") --out $name --resume --epochs 4 --threads 1"
    case $name in
    ssp | elastic | dense | dealt) run launch --servers 1 --workers 1 --cluster "old-saves-$$" -- $words ;;
    *) run $words ;;
    esac
    about "$(ls -d "$name"/save-* | tail -1)/manifest.json" >is
    case $name in
    ssp | elastic | dense | dealt) echo "$name $before $(cksum <is)" ;;
    *) echo "$name $before $(cksum <is) $(scores "$name")" ;;
    esac
    rm -rf "$name"
}

ways | while read -r name save kind options; do
    if [ ! -d "$saves/$name" ]; then
        [ "${TUG_SAVES_WRITE:-}" = 1 ] || fail "tests/golden/saves/$name is missing: TUG_SAVES_WRITE=1 makes it"
        make "$name" "$save" "$kind" $options
    fi
    got=$(check "$name") || fail "$name: $got"
    grep -qs "^$name " "$saves/sums" || [ "${TUG_SAVES_WRITE:-}" != 1 ] || echo "$got" >>"$saves/sums"
    want=$(grep "^$name " "$saves/sums") || fail "tests/golden/saves/sums has no line of $name"
    case " $layers " in
    *" $name "*) want=${want% * *} got=${got% * *} ;;
    esac
    [ "$want" = "$got" ] || fail "$name: '$got' instead of '$want'; was: $(cat was); is: $(cat is)"
done
