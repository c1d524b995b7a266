import json

import pytest


def test_shards_are_compared_with_one_index(run, tmp_path):
    done = run("bench", "cluster", "--quick", "--part", "search", "--json", tmp_path / "record.json")
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["search"]["processes"]["equal"]
    assert min(record["search"]["processes"]["recovery_seconds"]) > 0
    assert "fits" not in record


@pytest.mark.parametrize("unknown", [("--part", "sorting"), ("--fit", "ray-7")])
def test_unknown_parts_and_fits_are_refused(run, unknown):
    done = run("bench", "cluster", "--quick", *unknown)
    assert done.exit_code == 2
    assert f"there is no {unknown[0][2:]} '{unknown[1]}': expected one of" in done.output
