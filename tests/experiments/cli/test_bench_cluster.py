import json


def test_shards_are_measured_beside_one_index(run, tmp_path):
    done = run("bench", "cluster", "--quick", "--part", "search", "--json", tmp_path / "record.json")
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["search"]["processes"]["equal"]
    assert min(record["search"]["processes"]["recovery_seconds"]) > 0
    assert "fits" not in record
