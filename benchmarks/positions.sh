#!/usr/bin/env bash
# Codes of meaning and position: known and new classes, with labels and without. Cells that were measured before are not run
# again.
#
#   SUPQUANT_DATA=... RESULTS=docs/results benchmarks/positions.sh [open] [lengths] [unseen] [unlabelled] [paper] [extend]
#   supquant results docs/results/positions
#
# The cells are in the folder positions of RESULTS, which is results/ by default. SUPQUANT names the command, DATASETS and SEEDS
# choose some of them, PARALLEL is the number of cells that are measured at a time.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/cells.sh"
export supquant
export results=${RESULTS:-results}/positions
datasets=${DATASETS:-banking77 tinyimagenet mnist cifar10 coco30k coco30k-noperson}
seeds=${SEEDS:-0 1 2}
mkdir -p "$results"

cell() { # name, then options of `supquant experiment`
    local name=$1
    shift
    there "$results" "$name" || echo "experiment --json $results/$name.json $*"
}

ours() { # name, then options: with the library's defaults
    local name=$1
    shift
    cell "$name" --method sq --ranking label "$@"
}

embeddings() { case $1 in banking77 | tinyimagenet) ;; *) false ;; esac }
several() { case $1 in coco30k*) ;; *) false ;; esac }

open() {
    embeddings $dataset || return 0
    ours $dataset-open-sq-64-$seed --dataset $dataset --protocol open --bits 64 --seed $seed
    for method in probabilities cosine pq; do
        cell $dataset-open-$method-$seed --dataset $dataset --protocol open --bits 64 --method $method --seed $seed
    done
}

lengths() {
    embeddings $dataset || return 0
    for bits in 16 32 128; do
        ours $dataset-open-sq-$bits-$seed --dataset $dataset --protocol open --bits $bits --seed $seed
    done
}

unseen() {
    several $dataset && return 0
    ours $dataset-unseen-sq-64-$seed --dataset $dataset --protocol unseen --bits 64 --seed $seed
    for method in cosine pq; do
        cell $dataset-unseen-$method-$seed --dataset $dataset --protocol unseen --bits 64 --method $method --seed $seed
    done
    embeddings $dataset || return 0
    ours $dataset-unseen-all-sq-64-$seed --dataset $dataset --protocol unseen --fit-rows all --bits 64 --seed $seed
}

unlabelled() {
    ours $dataset-unlabelled-sq-64-$seed --dataset $dataset --protocol unlabelled --set new_classes=0 --bits 64 --seed $seed
    several $dataset && return 0
    cell $dataset-unlabelled-probabilities-$seed --dataset $dataset --protocol unlabelled --method probabilities --seed $seed
}

paper() {
    local queries=""
    several $dataset && queries="--queries 1000"
    for bits in 16 64; do
        ours $dataset-paper-sq-$bits-$seed --dataset $dataset --protocol paper --bits $bits --seed $seed $queries
    done
    several $dataset && return 0
    cell $dataset-paper-probabilities-$seed --dataset $dataset --protocol paper --method probabilities --seed $seed
}

extend() {
    embeddings $dataset || return 0
    local name=$results/extend/$dataset-$seed.json
    mkdir -p "$results/extend"
    [[ -e $name ]] || echo "bench extend --dataset $dataset --seed $seed --json $name"
}

(($#)) || set -- open unseen unlabelled paper extend lengths
for part in "$@"; do
    case $part in
        open | lengths | unseen | unlabelled | paper | extend) ;;
        *) echo "no part $part: open, lengths, unseen, unlabelled, paper, extend" >&2; exit 2 ;;
    esac
    for seed in $seeds; do
        for dataset in $datasets; do
            $part
        done
    done
done | xargs -r -P "${PARALLEL:-1}" -I '{}' bash -c '$supquant {}'
fold "$results"
