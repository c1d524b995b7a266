#!/usr/bin/env bash
# The accuracy tables: every cell is one JSON file under results/; what is there already is not run again.
#
#   SUPQUANT_DATA=... benchmarks/accuracy.sh [joint] [classifier] [unlabelled] [penalties] [alternating] [published]
#   supquant results results/
#
# Without arguments all parts run, cheapest first. SUPQUANT names the command, results/ can be moved by RESULTS.
set -euo pipefail
supquant=${SUPQUANT:-supquant}
results=${RESULTS:-results}

# cells FOLDER LAST_BITS ARGUMENTS...: one chain of code lengths, unless its last cell is there
cells() {
    local folder=$results/$1 last=$2
    shift 2
    if compgen -G "$folder/*-${last}bits-*.json" > /dev/null; then return; fi
    echo "== $folder: $*"
    $supquant experiment --anchors 1000 --out-dir "$folder" "$@"
}

joint() {
    for seed in 0 1 2; do for data in mnist cifar10; do
        cells "joint/$data-$seed" 128 --dataset $data --method sq --bits 16,32,64,128 --seed $seed
    done; done
}

classifier() {
    for seed in 0 1 2; do for data in mnist cifar10; do
        cells "classifier/$data-$seed" 16 --dataset $data --method classifier --bits 16 --seed $seed
    done; done
}

unlabelled() {
    for seed in 0 1 2; do for data in mnist cifar10; do
        cells "unlabelled/$data-$seed" 64 --dataset $data --method sq --bits 16,64 --protocol unlabelled --seed $seed
        cells "unlabelled-classifier/$data-$seed" 16 --dataset $data --method classifier --bits 16 \
            --protocol unlabelled --seed $seed
    done; done
}

# gamma and mu of the alternating solver, by validation at 16 bits on some of the rows of seed 0; then reused
penalties() {
    mkdir -p "$results/penalties"
    for data in cifar10 mnist; do
        cells "penalties/$data" 16 --dataset $data --method sq --solver alternating --bits 16 --seed 0 \
            --rows "${PENALTY_ROWS:-21000}" --penalties validate --penalties-file "$results/penalties/$data.points.json"
    done
}

alternating() {
    for data in cifar10 mnist; do
        points=$results/penalties/$data.points.json
        cells "alternating/$data-0" 128 --dataset $data --method sq --solver alternating --bits 16,32,64,128 \
            --seed 0 --penalties "$points"
        for seed in 1 2; do
            cells "alternating/$data-$seed" 32 --dataset $data --method sq --solver alternating --bits 16,32 \
                --seed $seed --penalties "$points"
        done
    done
}

# the published order of steps: longer codes gain because training goes on
published() {
    for data in cifar10 mnist; do
        cells "published/$data" 128 --dataset $data --method sq --solver alternating --bits 16,32,64,128 --seed 0 \
            --rows 21000 --max-turns 1 --max-iter 40 --penalties "$results/penalties/$data.points.json"
    done
}

for part in ${@:-classifier joint unlabelled penalties alternating published}; do $part; done
