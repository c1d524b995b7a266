import numpy as np
import pytest
from typer.testing import CliRunner

from supquant.cli import app


@pytest.fixture
def run():
    """Function that runs the command with arguments and returns its result."""
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="session")
def files(digits, tmp_path_factory):
    """Folder with 500 training rows, 300 items and 60 queries."""
    folder = tmp_path_factory.mktemp("files")
    X, y = digits
    np.savez(folder / "train.npz", X=X[:500], y=y[:500])
    np.savez(folder / "items.npz", X=X[500:800], y=y[500:800])
    np.savez(folder / "queries.npz", X=X[800:860], y=y[800:860])
    np.save(folder / "X.npy", X[:500])
    np.savetxt(
        folder / "X.csv", X[:500], delimiter=",", header=",".join(f"p{k}" for k in range(64)), comments=""
    )
    (folder / "y.txt").write_text("\n".join(f"digit {label}" for label in y[:500]))
    return folder


@pytest.fixture(scope="session")
def model(files):
    path = files / "model.safetensors"
    result = CliRunner().invoke(
        app,
        [
            "fit",
            str(files / "train.npz"),
            "-o",
            str(path),
            "--bits",
            "16",
            "--max-iter",
            "5",
        ],
    )
    assert result.exit_code == 0, result.output
    return path
