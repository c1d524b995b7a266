#!/usr/bin/env bash
# Ranking by meaning beyond the cells of `supquant paper`. Cells that were measured before are not run again.
#
#   SUPQUANT_DATA=... RESULTS=docs/results benchmarks/label.sh [random] [unlabelled] [gamma]
#   supquant results docs/results/label
#
# random      COCO-30k with 1,000 random queries, where `supquant paper` takes a hundred of each label; three splits
# unlabelled  the same for items without labels; one split
# gamma       the library's default model, and the published one by either ranking, over decades of gamma; one split
# The cells are in the folder label of RESULTS, which is results/ by default. SUPQUANT names the command.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/cells.sh"
results=${RESULTS:-results}/label

protocol=paper

cell() { # folder, dataset, seed, method, ranking, lengths, then options
    local folder=$1 dataset=$2 seed=$3 method=$4 ranking=$5 lengths=$6
    shift 6
    local missing=() below=${folder#"$results"}
    for bits in ${lengths//,/ }; do
        there "$results" "${below:+${below#/}/}$dataset-$protocol-$method-$ranking-${bits}bits-seed$seed" || missing+=("$bits")
    done
    ((${#missing[@]})) || return 0
    $supquant experiment --dataset "$dataset" --protocol $protocol --seed "$seed" --method "$method" --ranking "$ranking" \
        --bits "$(IFS=,; echo "${missing[*]}")" --out-dir "$folder" "$@"
}

random() {
    for seed in 0 1 2; do
        for dataset in coco30k-noperson coco30k; do
            cell $results $dataset $seed sq label 16,64 --queries 1000
            cell $results $dataset $seed classifier label 16 --queries 1000 --anchors 4000
        done
    done
}

unlabelled() {
    local protocol=unlabelled
    for dataset in coco30k-noperson coco30k; do
        cell $results $dataset 0 sq label 16 --queries 1000
    done
}

gamma() {
    for gamma in 1e-7 1e-6 1e-5 1e-4 1e-3; do
        cell $results/gamma-$gamma cifar10 0 sq label 16 --quantization-weight $gamma
        cell $results/gamma-$gamma mnist 0 sq label 16 --quantization-weight $gamma
        cell $results/gamma-$gamma coco30k-noperson 0 sq label 16 --quantization-weight $gamma --queries 1000
        for ranking in label euclidean; do # the published features, ranked both ways
            cell $results/published-gamma-$gamma cifar10 0 sq $ranking 16 --anchors 1000 --quantization-weight $gamma
        done
    done
}

(($#)) || set -- random unlabelled gamma
for part in "$@"; do
    case $part in
        random | unlabelled | gamma) $part ;;
        *) echo "no part $part: random, unlabelled, gamma" >&2; exit 2 ;;
    esac
done
fold "$results"
