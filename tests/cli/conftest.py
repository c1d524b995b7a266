import shutil

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

from supquant import CodeIndex, load_model
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


@pytest.fixture(scope="session")
def growing_files(digits, tmp_path_factory):
    """A model of the digits below 8, an index of 100 items, and files of vectors with labels and with ids."""
    folder = tmp_path_factory.mktemp("extend")
    X, y = digits
    known = np.flatnonzero(y < 8)[:300]
    np.savez(folder / "train.npz", X=X[known], y=y[known])
    fitted = ["fit", folder / "train.npz", "-o", folder / "base.model", "--bits", 16, "--max-iter", 1]
    assert CliRunner().invoke(app, list(map(str, fitted))).exit_code == 0
    index = CodeIndex(load_model(folder / "base.model")).add(X[500:600], ids=range(500, 600))
    index.save(folder / "base.index")
    few = np.concatenate([np.flatnonzero(y[:1000] == new)[:4] for new in (8, 9)])
    np.savez(folder / "few.npz", X=X[few], y=y[few])
    np.savez(folder / "items.npz", X=X[600:640], y=y[600:640])
    columns = {f"x{number}": X[500:600, number] for number in range(64)}
    pandas.DataFrame({"id": range(500, 600), **columns}).to_csv(folder / "vectors.csv", index=False)
    return folder


@pytest.fixture
def here(growing_files, tmp_path, monkeypatch):
    """A copy of `growing_files`, which is the current folder."""
    shutil.copytree(growing_files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"
