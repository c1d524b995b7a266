#!/usr/bin/env bash
# Accuracy beyond the cells of `supquant paper`. Cells that were measured before are not run again.
#
#   SUPQUANT_DATA=... RESULTS=docs/results benchmarks/accuracy.sh [compare] [penalties] [alternating] [published]
#   supquant results docs/results/compare
#
# Without arguments all parts run, cheapest first. Each part is a folder of RESULTS, which is results/ by default.
# SUPQUANT names the command.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/cells.sh"
results=${RESULTS:-results}

# cells PART/CHAIN LAST_BITS ARGUMENTS...: one chain of code lengths, unless its last cell is there
cells() {
    local part=${1%%/*} chain=${1#*/} last=$2
    shift 2
    if there "$results/$part" "$chain/*-${last}bits-*"; then return; fi
    echo "== $results/$part/$chain: $*"
    $supquant experiment --anchors 1000 --out-dir "$results/$part/$chain" "$@"
}

# every method next to ours, with its authors' settings, seed 0: those whose time is limited at 64 bits, and the published cells
compare() {
    for method in cca-itq sdh sdh-linear ssh ksh fasthash mlh bre; do
        cells "compare/cifar10-$method" 64 --dataset cifar10 --method $method --bits 64
    done
    cells compare/mnist-sdh 64 --dataset mnist --method sdh --bits 64
    for method in classifier classifier-bits classifier-scores euclidean pq opq cq; do
        cells "compare/cifar10-$method" 64 --dataset cifar10 --method $method --bits 16,64
    done
    cells compare/mnist-cq 16 --dataset mnist --method cq --bits 16
    # gamma 1e-4 is what validation finds on 10,000 training rows of CIFAR-10 where P is fixed (40 points)
    cells compare/cifar10-sq-no-transform 16 --dataset cifar10 --method sq-no-transform --bits 16 --quantization-weight 1e-4
    cells compare/cifar10-sq-pca 16 --dataset cifar10 --method sq-no-transform --bits 16 --quantization-weight 1e-4 \
        --set projection=pca
    # KSH as its authors ran it: 300 anchors, 1,000 and 2,000 labelled rows, sigma the root mean square distance of rows;
    # and with 5,000 rows
    for rows in 1000 2000; do
        cells "compare/cifar10-ksh-published-$rows" 48 --dataset cifar10 --method ksh --bits 24,48 --anchors 300 \
            --bandwidth 1.414 --set max_rows=$rows
    done
    cells compare/cifar10-ksh-300-anchors 64 --dataset cifar10 --method ksh --bits 64 --anchors 300 --bandwidth 1.414
    cells compare/cifar10-sq-triplet 16 --dataset cifar10 --method sq-triplet --bits 16
}

# gamma and mu of the alternating solver, by validation at 16 bits on some of the rows of seed 0; then reused
penalties() {
    mkdir -p "$results/penalties"
    for data in cifar10 mnist; do
        cells "penalties/$data" 16 --dataset $data --method sq --solver alternating --bits 16 --seed 0 \
            --rows "${PENALTY_ROWS:-21000}" --tuning validate --tuning-file "$results/penalties/$data.points.json"
    done
}

alternating() {
    for data in cifar10 mnist; do
        points=$results/penalties/$data.points.json
        cells "alternating/$data-0" 128 --dataset $data --method sq --solver alternating --bits 16,32,64,128 \
            --seed 0 --tuning "$points"
        for seed in 1 2; do
            cells "alternating/$data-$seed" 32 --dataset $data --method sq --solver alternating --bits 16,32 \
                --seed $seed --tuning "$points"
        done
    done
}

# the published order of steps: longer codes gain because training continues
published() {
    for data in cifar10 mnist; do
        cells "published/$data" 128 --dataset $data --method sq --solver alternating --bits 16,32,64,128 --seed 0 \
            --rows 21000 --max-turns 1 --max-iter 40 --tuning "$results/penalties/$data.points.json"
    done
}

for part in ${@:-compare penalties alternating published}; do
    $part
    fold "$results/$part"
done
