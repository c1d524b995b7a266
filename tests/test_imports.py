"""What an import costs, and what it may do without."""

import subprocess
import sys

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
