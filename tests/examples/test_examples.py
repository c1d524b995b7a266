import re
import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_digits_example_finds_digits_and_keeps_its_index(capsys):
    runpy.run_path(str(EXAMPLES / "search_digits.py"))
    lines = capsys.readouterr().out.splitlines()
    assert int(lines[1].split("%")[0]) > 85
    assert set(lines[2].split(":")[1].split()) <= {"1", "3", "5", "7", "9"}
    assert lines[3] == "700 items opened again, the first of them is digit-100"


def test_the_audit_example_finds_wrong_labels(capsys):
    runpy.run_path(str(EXAMPLES / "audit_digits.py"))
    lines = capsys.readouterr().out.splitlines()
    assert int(lines[0].split()[0]) >= 17
    assert int(lines[1].split()[1].rstrip("%")) >= 85


def test_the_comparison_puts_methods_with_labels_before_those_without(capsys):
    runpy.run_path(str(EXAMPLES / "compare_digits.py"))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {line[0]: float(line[-1]) for line in lines}
    unsupervised = [found.pop("CompositeQuantizer"), found.pop("ProductQuantizer")]
    assert min(unsupervised) > 0.5  # a tenth would be chance
    assert min(found.values()) > max(unsupervised)


def test_texts_are_found_by_their_intent(capsys):
    names = runpy.run_path(str(EXAMPLES / "search_texts.py"))
    assert int(re.search(r"(\d+)% of the first", capsys.readouterr().out)[1]) > 80
    assert len(names["answers"]) == 3 * len(names["asked"])


def test_products_fulfil_conditions(capsys):
    names = runpy.run_path(str(EXAMPLES / "filter_products.py"))
    assert int(re.search(r"(\d+)% of the answers", capsys.readouterr().out)[1]) > 95
    for where, rows in names["found"].items():
        assert len(rows) == 6
        assert all(row["stock"] > 0 for row in rows)
        assert "price" not in where or all(row["price"] < 30 for row in rows)


def test_new_intents_are_found_and_named(capsys):
    names = runpy.run_path(str(EXAMPLES / "discover_questions.py"))
    shares = [int(share) for share in re.findall(r"(\d+)% of them", capsys.readouterr().out)]
    assert len(shares) == len(names["found"].members) >= 5
    assert sum(shares) / len(shares) > 70
    assert (names["quantizer"].predict(names["X"][names["members"]]) == names["name"]).mean() > 0.9


def test_a_client_searches_and_changes_a_service(capsys):
    runpy.run_path(str(EXAMPLES / "serve_digits.py"))
    served, *alike, odd, left = capsys.readouterr().out.splitlines()
    assert [line.count(str(digit)) - 1 for digit, line in enumerate(alike)] == [5, 5, 5]
    assert all(int(digit) % 2 for digit in odd.split(":")[1].split())
    assert int(served.split()[0]) - int(left.split()[0]) == 1
