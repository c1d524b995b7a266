"""A method of one's own: what `package.module:Class` may be, what is refused, and the page that shows it."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from supquant.errors import InputError
from supquant_lab.cell import run_cells
from supquant_lab.cli import app
from supquant_lab.datasets import load
from supquant_lab.grid import CellsTask, Workplace, run_grid
from supquant_lab.methods import Settings, find_method
from supquant_lab.methods.own import own_method
from supquant_lab.paper import render_report
from supquant_lab.paper.plan import paper_tasks

PAGE = Path(__file__).parents[2] / "docs" / "maintainers" / "own-method.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)

MODULE = """
import numpy as np
from supquant import ProductQuantizer

class Signs:
    def __init__(self, bits, random_state=0, scale=1.0):
        self.bits, self.random_state, self.scale = bits, random_state, scale
    def fit(self, X, y):
        rng = np.random.default_rng(self.random_state)
        self.mean, self.planes = X.mean(axis=0), rng.normal(size=(X.shape[1], self.bits))
        return self
    def encode(self, X):
        return np.packbits((X - self.mean) @ self.planes > 0, axis=1)
    def scores(self, Q, codes):
        different = self.encode(Q)[:, None, :] ^ codes[None]
        return self.scale * np.unpackbits(different, axis=2).sum(axis=2, dtype=np.float64)

class Short(ProductQuantizer):
    def __init__(self, n_codebooks=2, *, n_codewords=16, max_iter=3, random_state=None, n_jobs=None):
        super().__init__(n_codebooks, n_codewords=n_codewords, max_iter=max_iter,
                         random_state=random_state, n_jobs=n_jobs)

class OneRow(Signs):
    def encode(self, X):
        return super().encode(X)[:1]

class NoEncode:
    def __init__(self, bits): ...
    def fit(self, X, y): ...
    def scores(self, Q, codes): ...

class NoScores:
    def __init__(self, bits): ...
    def fit(self, X, y): ...
    def encode(self, X): ...

class NoLength:
    def fit(self, X, y): ...
    def encode(self, X): ...
    def scores(self, Q, codes): ...

from supquant_lab.methods import Method
class Abstract(Method): ...

a_function = print
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a module `ours_<unique>`; returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    own_method.cache_clear()
    name = f"ours_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    return name


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_page_shows_methods_that_run(tmp_path, monkeypatch, folder):
    blocks = BLOCK.findall(PAGE.read_text())
    files = [text for kind, text in blocks if kind == "python"]
    commands = [line for kind, text in blocks if kind == "console" for line in text.splitlines()]
    assert len(files) == 3
    assert len(commands) == 6
    for text in files:
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    exec(compile((tmp_path / "data.py").read_text(), "data.py", "exec"), {})
    outputs = []
    for line in commands:
        prompt, name, *arguments = shlex.split(line)
        assert (prompt, name) == ("$", "supquant")
        result = run(*arguments)
        assert result.exit_code == 0, (line, result.output)
        outputs.append(result.output)
    cells = {
        (cell["method"], cell["bits"]): cell
        for cell in (json.loads(path.read_text()) for path in tmp_path.glob("results/*.json"))
    }
    assert set(cells) == {(method, bits) for method in ("means:MeansQuantizer", "pq") for bits in (16, 32)}
    assert cells["means:MeansQuantizer", 16]["parameters"]["keep"] == 0.05
    assert cells["means:MeansQuantizer", 16]["map"] > cells["pq", 16]["map"]
    assert "means:MeansQuantizer" in outputs[2]
    assert "mine-paper-means:MeansQuantizer-own 64 bits seed 2" in outputs[5]


def test_a_class_of_any_kind_is_measured_with_its_seed_and_parameters(folder):
    data = load("digits").sample(500)
    one, other = (
        next(
            run_cells(
                data, method=f"{folder}:Signs", bits=[32], settings=Settings(parameters={"scale": scale})
            )
        )
        for scale in (1.0, 2.0)
    )
    assert one.map == other.map  # the scale changes no order
    assert one.parameters["scale"] == 1.0
    assert one.parameters["random_state"] == 0
    assert one.map_learned is None
    assert one.index_bytes_per_item == 4
    assert one.ranking == "own"
    assert {"scan", "total"} <= set(one.query_ms)
    assert one.map > 0.2


def test_a_subclass_of_the_library_gives_the_same_figures_as_the_method_by_name(folder):
    data = load("digits").sample(600)
    parameters = {"n_codewords": 16, "max_iter": 3}
    own, named = (
        next(run_cells(data, method=method, settings=Settings(parameters=told)))
        for method, told in ((f"{folder}:Short", {}), ("pq", parameters))
    )
    for field in ("map_learned", "map_encoded", "recall_at_10", "distinct_codes", "quantization_error"):
        assert getattr(own, field) == getattr(named, field)


@pytest.mark.parametrize(
    ("method", "part"),
    [
        ("no_such_module_here:Thing", "cannot import no_such_module_here"),
        ("{}:Absent", "has no 'Absent'; it has the classes"),
        ("{}:a_function", "is not a class"),
        ("{}:NoEncode", "has no method encode"),
        ("{}:NoScores", "has no method tables and no method scores"),
        ("{}:NoLength", "needs a parameter n_codebooks or n_bits or bits"),
        ("{}:Abstract", "has no method fitted"),
        ("broken:Thing", "cannot import broken of broken:Thing: ZeroDivisionError"),
        (":Thing", "cannot import"),
        ("sqq", "unknown method 'sqq'"),
        ("{}:OneRow", "must return one row for each of"),
    ],
)
@pytest.mark.parametrize("command", ["experiment", "paper"])
def test_a_class_that_is_not_a_method_ends_with_exit_code_2_and_one_line(
    folder, tmp_path, method, part, command
):
    (tmp_path / "broken.py").write_text("1 / 0")
    named = method.format(folder)
    if command == "paper" and "OneRow" in method:
        pytest.skip("what `encode` returns is known when the task runs")
    options = ("--rows", 400) if command == "experiment" else ("--plan",)
    result = run(command, "--dataset", "digits", "--method", named, *options)
    assert result.exit_code == 2, result.output
    assert part in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_parameter_that_the_class_does_not_have_is_refused(folder):
    result = run(
        "experiment", "--dataset", "digits", "--rows", 400, "--method", f"{folder}:Signs", "--set", "depth=3"
    )
    assert result.exit_code == 2
    assert "has no parameter 'depth'; it has bits, random_state, scale" in result.stderr


def test_a_ranking_that_the_class_does_not_have_is_refused(folder):
    result = run("experiment", "--method", f"{folder}:Signs", "--ranking", "hamming")
    assert result.exit_code == 2
    assert "has no ranking 'hamming'; it has own" in result.stderr


def test_the_report_shows_any_data_set_and_any_method(folder, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=300)
    np.savez(tmp_path / "shop.npz", X=rng.normal(size=(300, 8)) + 3 * np.eye(8)[y], y=y)
    own = f"{folder}:Signs"
    tasks = [
        task
        for task in paper_tasks(["map", "unlabelled"], ["shop.npz"], [own, "euclidean"])
        if task.seed == 0 and min(task.bits) == 16
    ]
    assert {task.method for task in tasks} == {own, "euclidean"}
    outcomes = list(run_grid(tasks, Workplace(tmp_path / "out"), workers=0))
    assert [outcome.error for outcome in outcomes] == [""] * len(tasks)
    report = render_report(tmp_path / "out", tmp_path / "out")
    page = report.page.read_text()
    assert own in page
    assert "shop.npz" in page
    assert run("paper", "--dataset", "shop.npz", "--method", own, "--results", "out", "--plan").exit_code == 0


def test_a_plan_for_other_data_has_what_its_labels_allow(tmp_path, folder):
    rng = np.random.default_rng(0)
    np.savez("two.npz", X=rng.normal(size=(50, 4)), y=rng.integers(2, size=50))
    np.savez("tags.npz", X=rng.normal(size=(50, 4)), y=rng.integers(2, size=(50, 3)))
    np.savez("many.npz", X=rng.normal(size=(50, 4)), y=np.arange(50) % 5)
    planned = {
        name: {task.protocol for task in paper_tasks(datasets=[name]) if isinstance(task, CellsTask)}
        for name in ("two.npz", "tags.npz", "many.npz")
    }
    assert planned["many.npz"] == {"paper", "unlabelled", "unseen"}
    assert planned["two.npz"] == planned["tags.npz"] == {"paper", "unlabelled"}
    methods = {task.method for task in paper_tasks(datasets=["tags.npz"])}
    assert "sq-triplet" not in methods


@pytest.mark.parametrize("names", [["a/mine.npz", "b/mine.npz"], ["data/mnist.npz"]])
def test_two_data_sets_whose_results_would_have_one_name_are_refused(names):
    with pytest.raises(InputError, match="give the file another name"):
        paper_tasks(datasets=names)


def test_methods_by_name_are_found_as_before():
    assert find_method("sq").name == "sq"
