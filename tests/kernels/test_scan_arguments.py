"""Scans refuse wrong arguments."""

import numpy as np
import pytest
from scan_cases import LARGEST, draw_codes, draw_tables, plain

from supquant.kernels import Scanned, native, reference


@pytest.mark.parametrize("implementation", [native, reference])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, LARGEST / 3 * 1.01, -LARGEST / 3 * 1.01])
def test_tables_without_finite_sums_are_refused(implementation, value, rng):
    space, limits = plain(draw_codes(10, 3, 4, rng)), np.zeros(4, dtype=np.float32)
    for place in range(4):
        tables = draw_tables("normal", 4, 3, 4, rng)
        tables[2, :, place] = value
        with pytest.raises(ValueError, match=r"the sums of table 2 must be finite in float32, got"):
            implementation.scan(space, tables, 5)
        with pytest.raises(ValueError, match=r"the sums of table 2 must be finite in float32, got"):
            implementation.scan_within(space, tables, limits)


@pytest.mark.parametrize("implementation", [native, reference])
def test_wrong_arguments_are_refused(implementation, rng):
    codes, tables = draw_codes(70, 3, 4, rng), draw_tables("normal", 2, 3, 4, rng)
    space, limits = plain(codes), np.zeros(2, dtype=np.float32)
    scan, within = implementation.scan, implementation.scan_within
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        scan(space, tables, 0)
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        scan(space, tables, 1, n_threads=0)
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        within(space, tables, limits, n_threads=0)
    with pytest.raises(ValueError, match="limits must be numbers, got NaN for query 1"):
        within(space, tables, np.float32([0, np.nan]))
    with pytest.raises(ValueError, match=r"limits must have shape \(2\), got \(3,\)"):
        within(space, tables, np.zeros(3, dtype=np.float32))
    with pytest.raises(ValueError, match="limits must be an array of float32, got float64"):
        within(space, tables, np.zeros(2))

    codes_of_rows = {"starts": np.arange(71, dtype=np.uint32), "members": np.arange(70, dtype=np.uint32)}
    spaces = {
        r"blocks must have shape \(2, any, 64\), got \(1, 3, 64\)": Scanned(space.blocks[:1], 70),
        r"tables must have shape \(any, 2, any\), got \(2, 3, ": plain(codes[:, :2]),
        "blocks must be C-contiguous": Scanned(np.asfortranarray(space.blocks), 70),
        "blocks must be an array of uint8, got int8": Scanned(space.blocks.view(np.int8), 70),
        r"eligible must have shape \(2\), got \(1,\)": plain(codes, np.ones(64, dtype=bool)),
        r"starts must have shape \(71\), got \(70,\)": Scanned(
            space.blocks, 70, codes_of_rows["members"], codes_of_rows["members"]
        ),
        "members must be an array of uint32, got NoneType": Scanned(
            space.blocks, 70, codes_of_rows["starts"]
        ),
        r"eligible must have shape \(1\), got \(2,\)": Scanned(
            space.blocks,
            70,
            np.zeros(71, dtype=np.uint32),
            np.arange(64, dtype=np.uint32),
            np.zeros(2, dtype=np.uint64),
        ),
    }
    for message, wrong in spaces.items():
        with pytest.raises(ValueError, match=message):
            scan(wrong, tables, 5)
        with pytest.raises(ValueError, match=message):
            within(wrong, tables, limits)

    for message, wrong in {
        "tables must be an array of float32, got float64": tables.astype(float),
        r"tables must have shape \(any, 3, any\), got \(3, 4\)": tables[0],
        r"tables must have shape \(any, 3, any\), got \(2, 65, 4\)": np.zeros((2, 65, 4), dtype=np.float32),
        "tables must be of 1 to 64 codebooks of 1 to 256, got 3 of 257": np.zeros(
            (2, 3, 257), dtype=np.float32
        ),
        "tables must be of 1 to 64 codebooks of 1 to 256, got 3 of 0": np.zeros((2, 3, 0), dtype=np.float32),
    }.items():
        with pytest.raises(ValueError, match=message):
            scan(space, wrong, 5)
    with pytest.raises(ValueError, match=r"query_bits must have shape \(2, 3\), got \(1, 3\)"):
        scan(space, tables, 5, np.zeros((1, 3), dtype=np.uint8))
