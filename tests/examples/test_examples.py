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
