import json


def test_an_audit_finds_more_than_others_by_the_probabilities_of_its_classifiers(run, tmp_path):
    result = run(
        "bench",
        "audit",
        "--datasets",
        "digits-ambiguous",
        "--seeds",
        "0",
        "--rows",
        1000,
        "--json",
        tmp_path / "r.json",
    )
    assert result.exit_code == 0, result.output
    (record,) = json.loads((tmp_path / "r.json").read_text())["records"]
    (measured,) = record["measured"]
    assert record["ambiguous"]
    assert measured["changed"] == 30
    others = {name: each["average_precision"] for name, each in measured["others"].items()}
    assert {name.partition(": ")[0] for name in others} == {"kernel ridge", "logistic regression"}
    assert len(others) == 2 * 6
    ours = measured["all_rows"]["average_precision"]
    assert ours > max(others.values())
    for value in (ours, *others.values()):
        assert f"{value:.3f}" in result.output
