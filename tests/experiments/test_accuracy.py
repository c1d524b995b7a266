"""Accuracy must not drop: floors for every method and data set, all of them in the tables below."""

import pytest

from supquant.datasets import load
from supquant.experiments.cell import run_cells
from supquant.experiments.methods import Settings

# (solver, protocol, bits) -> least MAP on the digits, 200 anchors, seed 0
DIGITS_FLOORS = {
    ("joint", "paper", 16): 0.97,
    ("joint", "unlabelled", 16): 0.92,
    ("alternating", "paper", 16): 0.90,
}

# (data set, solver, protocol, bits) -> least MAP with ROWS random rows, ANCHORS anchors, seed 0
ROWS, ANCHORS = 4000, 300
REAL_FLOORS = {
    ("mnist", "joint", "paper", 16): 0.90,
    ("mnist", "joint", "paper", 32): 0.90,
    ("mnist", "joint", "unlabelled", 16): 0.80,
    ("mnist", "alternating", "paper", 16): 0.85,
    ("cifar10", "joint", "paper", 16): 0.50,
    ("cifar10", "alternating", "paper", 16): 0.40,
    ("coco30k-noperson", "joint", "paper", 16): 0.20,
}

CEILING_GAP = 0.005  # how far joint codes may stay behind the classifier that stores the label itself


@pytest.mark.parametrize(("solver", "protocol", "bits"), list(DIGITS_FLOORS))
def test_digits_reach_their_floor(solver, protocol, bits):
    settings = Settings(anchors=200, solver=solver)
    (cell,) = run_cells(load("digits"), bits=(bits,), protocol=protocol, settings=settings)
    assert cell.map >= DIGITS_FLOORS[solver, protocol, bits]


def test_joint_codes_of_the_digits_come_close_to_storing_the_label():
    maps = [
        next(run_cells(load("digits"), method=method, settings=Settings(anchors=200))).map
        for method in ("sq", "classifier")
    ]
    assert maps[0] >= maps[1] - CEILING_GAP


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(("name", "solver", "protocol", "bits"), list(REAL_FLOORS))
def test_real_data_reach_their_floor(name, solver, protocol, bits):
    settings = Settings(anchors=ANCHORS, solver=solver)
    data = load(name).sample(ROWS)
    (cell,) = run_cells(data, bits=(bits,), protocol=protocol, settings=settings)
    assert cell.map >= REAL_FLOORS[name, solver, protocol, bits]
