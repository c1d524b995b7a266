import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_digits_example_finds_digits_and_keeps_its_index(capsys):
    runpy.run_path(str(EXAMPLES / "search_digits.py"))
    lines = capsys.readouterr().out.splitlines()
    assert int(lines[1].split("%")[0]) > 85
    assert set(lines[2].split(":")[1].split()) <= {"1", "3", "5", "7", "9"}
    assert lines[3] == "700 items opened again, the first of them is digit-100"
