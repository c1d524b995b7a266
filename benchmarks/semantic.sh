#!/usr/bin/env bash
# Ranking by meaning with the library's defaults, on real data: every cell is one JSON file under results/semantic; what is
# there already is not run again.
#
#   SUPQUANT_DATA=... benchmarks/semantic.sh [figures] [gamma]
#   supquant results results/semantic
#
# figures   sq by meaning where items have labels, have none, and are of classes nobody trained on; the classifier on as many
#           anchors and its float scores beside it; three splits
# gamma     the same model, and the published one by either ranking, over decades of gamma; one split
# SUPQUANT names the command, results/ can be moved by RESULTS.
set -euo pipefail
supquant=${SUPQUANT:-supquant}
results=${RESULTS:-results}/semantic

cell() { # folder, dataset, protocol, seed, method, ranking, lengths, then options
    local folder=$1 dataset=$2 protocol=$3 seed=$4 method=$5 ranking=$6 lengths=$7
    shift 7
    local missing=()
    for bits in ${lengths//,/ }; do
        [[ -e $folder/$dataset-$protocol-$method-$ranking-${bits}bits-seed$seed.json ]] || missing+=("$bits")
    done
    ((${#missing[@]})) || return 0
    [[ $dataset == coco30k* ]] && set -- --queries 1000 "$@" # random queries, as for the other data sets
    $supquant experiment --dataset "$dataset" --protocol "$protocol" --seed "$seed" --method "$method" \
        --ranking "$ranking" --bits "$(IFS=,; echo "${missing[*]}")" --out-dir "$folder" "$@"
}

figures() {
    for seed in 0 1 2; do
        for dataset in cifar10 coco30k-noperson coco30k mnist; do
            cell $results $dataset paper $seed sq semantic 16,64
            cell $results $dataset paper $seed classifier semantic 16 --anchors 4000
        done
        for protocol in unlabelled unseen; do
            cell $results cifar10 $protocol $seed sq semantic 16,64
            cell $results cifar10 $protocol $seed classifier semantic 16 --anchors 4000
            cell $results cifar10 $protocol $seed classifier-scores semantic 16 --anchors 4000
            cell $results cifar10 $protocol $seed euclidean euclidean 16
        done
    done
}

gamma() {
    for gamma in 1e-7 1e-6 1e-5 1e-4 1e-3 1e-1 10; do
        for dataset in cifar10 mnist coco30k-noperson; do
            cell $results/gamma-$gamma $dataset paper 0 sq semantic 16 --quantization-weight $gamma
        done
        # the published features, ranked both ways
        for ranking in semantic euclidean; do
            cell $results/published-gamma-$gamma cifar10 paper 0 sq $ranking 16 --anchors 1000 --quantization-weight $gamma
        done
    done
}

(($#)) || set -- figures gamma
for part in "$@"; do
    case $part in
        figures | gamma) $part ;;
        *) echo "no part $part: figures, gamma" >&2; exit 2 ;;
    esac
done
