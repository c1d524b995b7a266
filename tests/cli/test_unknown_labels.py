"""Labels that the model of an index does not know: what `index`, `add` and `update` do with them."""

import multiprocessing
import os
from functools import partial

import numpy as np
import pytest

from supquant import CodeIndex, load_model

KNOWN = 8  # digits 8 and 9 are new


@pytest.fixture
def items(here):
    with np.load(here / "items.npz") as file:
        return file["X"], file["y"]


COMMANDS = {
    "add": ("add", "base.index", "items.npz", "--ids", "ids.txt"),
    "add --replace": ("add", "base.index", "items.npz", "--ids", "ids.txt", "--replace"),
    "update": ("update", "base.index", "items.npz", "--ids", "ids.txt"),
    "index": ("index", "base.model", "items.npz", "--ids", "ids.txt", "-o", "new.index"),
    "index --append": (
        "index",
        "base.model",
        "items.npz",
        "--ids",
        "ids.txt",
        "-o",
        "base.index",
        "--append",
    ),
}


def run_with_labels(run, here, command, *options):
    first = {"update": 540, "add --replace": 580}.get(command, 600)
    ids = range(first, first + 40)
    (here / "ids.txt").write_text("\n".join(map(str, ids)))
    return list(ids), run(*COMMANDS[command], "--labels", "y", *options)


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_labels_are_added_to_the_model_of_the_index(run, here, items, command):
    X, y = items
    ids, result = run_with_labels(run, here, command, "--unknown-labels", "extend")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "Added to its model: 8, 9."
    index = CodeIndex.load("new.index" if command == "index" else "base.index")
    expected = load_model("base.model").codec_.extended(X[y >= KNOWN], y[y >= KNOWN])
    assert index.codec.pack().digest == expected.pack().digest
    np.testing.assert_array_equal(index.codes(ids), expected.encode_items(X, y))


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_labels_are_ignored_with_a_note(run, here, items, command, monkeypatch):
    monkeypatch.setattr("supquant.sources.source.BLOCK_BYTES", 2**12)  # the labels must go with their block
    X, y = items
    ids, result = run_with_labels(run, here, command, "--unknown-labels", "ignore")
    assert result.exit_code == 0, result.output
    assert (
        f"The labels of {(y >= KNOWN).sum()} items are unknown to the model and were ignored."
        in result.stderr
    )
    index = CodeIndex.load("new.index" if command == "index" else "base.index")
    expected = load_model("base.model").codec_
    labels = [label if label < KNOWN else None for label in y.tolist()]
    np.testing.assert_array_equal(index.codes(ids), expected.encode_items(X, labels))


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_labels_are_refused_with_all_choices(run, here, command):
    _, result = run_with_labels(run, here, command)
    assert result.exit_code == 2
    assert "2 unknown labels: 8, 9;" in result.stderr
    assert all(f"'{mode}'" in result.stderr for mode in ("error", "ignore", "extend"))
    assert "--unknown-labels" in result.stderr
    _, result = run_with_labels(run, here, command, "--unknown-labels", "add")
    assert result.exit_code == 2
    assert "unknown_labels must be" in result.stderr


def test_append_refuses_a_model_that_knows_more_labels_than_the_index(run, here, items):
    load_model("base.model").extend(items[0][:2], [70, 70]).save("base.model")
    _, result = run_with_labels(run, here, "index --append", "--unknown-labels", "ignore")
    assert result.exit_code == 2
    assert "base.index was made with another model" in result.stderr


def test_processes_that_add_labels_at_once_lose_none(run, fork, here, digits, monkeypatch):
    """Every process waits before its first save until all have loaded the index. So only one of these saves can succeed."""
    X, y = digits
    all_have_loaded = multiprocessing.Barrier(3)
    save, firsts = CodeIndex.save, iter([all_have_loaded.wait])  # each child has an iterator of its own

    def save_when_all_have_loaded(index, path, **options):
        next(firsts, lambda: None)()
        save(index, path, **options)

    def work(name, *command):
        result = run(*command)
        assert result.exit_code == 0, (name, result.output)

    for new in (8, 9):
        rows = np.flatnonzero(y == new)[:5]
        np.savez(f"{new}.npz", X=X[rows], y=y[rows], ids=1000 + rows)
    np.savez("7.npz", X=X[y == 7][:5], y=[70] * 5)
    monkeypatch.setattr(CodeIndex, "save", save_when_all_have_loaded)
    with_labels = ("--labels", "y", "--unknown-labels", "extend", "--jobs", "1")
    commands = [("add", "base.index", f"{new}.npz", "--ids", f"{new}.npz", *with_labels) for new in (8, 9)]
    commands.append(("extend", "base.index", "7.npz"))
    children = [fork(partial(work, str(command), *command)) for command in commands]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    index = CodeIndex.load("base.index", verify="full")
    assert sorted(index.codec.classes.tolist()) == [*range(10), 70]
    rows = np.concatenate([np.flatnonzero(y == new)[:5] for new in (8, 9)])
    np.testing.assert_array_equal(index.codes(1000 + rows), index.codec.encode_items(X[rows], y[rows]))
