"""What an import costs, and what it may do without."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import supquant
from supquant import CodeIndex, SupervisedQuantizer


@pytest.fixture
def python():
    """Run statements in a fresh interpreter in which some packages cannot be imported; return what they print."""

    def run(statements, *, without=(), arguments=()):
        hidden = f"import sys; sys.modules.update(dict.fromkeys({list(without)!r}))\n"
        done = subprocess.run(
            [sys.executable, "-c", hidden + statements, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_importing_the_library_imports_nothing_heavy(python):
    statements = (
        "import supquant; print(*sys.modules); import supquant.distributed.shard; print(*sys.modules)"
    )
    loaded, by_shard = (set(line.split()) for line in python(statements).splitlines())
    assert not {"numpy", "scipy", "sklearn", "typer", "supquant_lab"} & loaded
    # a worker that was lost starts again in the midst of a search
    assert not {"scipy.sparse", "scipy.special", "scipy.linalg", "sklearn", "pyarrow", "ray"} & by_shard


def test_the_version_is_printed_without_numpy(python):
    statements = "from supquant.cli import main; sys.argv = ['supquant', '--version']; main()"
    assert python(statements, without=["numpy", "sklearn"]) == f"supquant {supquant.__version__}\n"


def test_an_index_is_searched_without_scikit_learn_the_command_and_the_experiments(
    python, clusters, tmp_path
):
    X, y = clusters
    model = SupervisedQuantizer(2, n_codewords=8, random_state=0).fit(X, y)
    index = CodeIndex(model)
    index.add(X, y)
    index.save(tmp_path / "items.index")
    np.save(tmp_path / "queries.npy", X[:5])
    printed = python(
        "import numpy as np, supquant\n"
        "index = supquant.CodeIndex.load(sys.argv[1])\n"
        "print(index.search(np.load(sys.argv[2]), 3)[1].tolist())",
        without=["sklearn", "typer", "rich", "supquant_lab", "matplotlib", "faiss", "pandas"],
        arguments=[tmp_path / "items.index", tmp_path / "queries.npy"],
    )
    assert printed == f"{index.search(X[:5], 3)[1].tolist()}\n"


def test_every_public_name_can_be_imported():
    assert all(hasattr(supquant, name) for name in supquant.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Quantiser'"):
        supquant.Quantiser  # noqa: B018


def test_the_versions_of_ci_cover_all_that_tests_need():
    root = Path(__file__).parents[1]
    lock = root / ".ci" / f"constraints-{sys.version_info[0]}.{sys.version_info[1]}.txt"
    if not lock.is_file():
        pytest.skip("CI has no versions for this Python")
    locked = {plain_name(line.partition("==")[0]) for line in lock.read_text().splitlines()}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras, waiting, needed = project["optional-dependencies"], ["test"], set()
    while waiting:
        for each in extras[waiting.pop()]:
            name, _, rest = each.partition("[")
            if name == "supquant":
                waiting += rest.partition("]")[0].split(",")
            else:
                needed.add(plain_name(re.split("[^A-Za-z0-9._-]", each)[0]))
    needed |= {plain_name(re.split("[^A-Za-z0-9._-]", each)[0]) for each in project["dependencies"]}
    assert needed - locked == set()


def plain_name(name):
    return re.sub("[-_.]+", "-", name.strip()).lower()
