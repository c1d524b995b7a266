import csv
import json
import multiprocessing
import os
import resource
import signal
from functools import partial

import numpy as np
import pytest
from npz import read_arrays

from supquant import CodeIndex, SupervisedQuantizer, load_model
from supquant.cli.files import write_answers


@pytest.fixture
def items(files):
    return read_arrays(files / "items.npz", ("X", "y"))


@pytest.fixture
def names(tmp_path):
    """File of 300 ids that are strings because of their leading zeros."""
    path = tmp_path / "names.txt"
    path.write_text("\n".join(f"{number:03}" for number in range(300)))
    return path


@pytest.fixture
def folder(run, files, model, names, tmp_path):
    """An index of 300 items under string ids."""
    result = run("index", model, files / "items.npz", "-o", tmp_path / "items.index", "--ids", names)
    assert result.exit_code == 0, result.output
    assert "300 items, 2 bytes per code" in result.output
    return tmp_path / "items.index"


def test_the_index_holds_what_the_model_encodes(run, files, model, items, tmp_path):
    result = run("index", model, files / "items.npz", "-o", tmp_path / "i")
    assert result.exit_code == 0, result.output
    index = CodeIndex.load(tmp_path / "i")
    np.testing.assert_array_equal(index.ids, np.arange(300))
    np.testing.assert_array_equal(index.codes(index.ids), SupervisedQuantizer.load(model).encode(items[0]))


def test_labels_are_used_where_they_are_given(run, files, model, items, tmp_path, monkeypatch):
    monkeypatch.setattr("supquant.sources.source.BLOCK_BYTES", 2**15)  # the labels must go with their block
    run("index", model, files / "items.npz", "-o", tmp_path / "i", "--labels", files / "items.npz")
    index = CodeIndex.load(tmp_path / "i")
    expected = SupervisedQuantizer.load(model).encode(*items)
    np.testing.assert_array_equal(index.codes(index.ids), expected)


def test_numbers_with_leading_zeros_stay_strings(folder):
    assert CodeIndex.load(folder).ids[7] == "007"


@pytest.mark.parametrize("kind", [".npy", ".npz", ".csv", ".txt"])
def test_integers_are_read_from_every_kind_of_file(run, files, model, tmp_path, kind):
    ids = 10 * np.arange(300) - 50
    path = tmp_path / f"ids{kind}"
    if kind == ".npy":
        np.save(path, ids)
    elif kind == ".npz":
        np.savez(path, ids=ids)
    else:
        path.write_text("\n".join(map(str, ids)))
    assert run("index", model, files / "items.npz", "-o", tmp_path / "i", "--ids", path).exit_code == 0
    np.testing.assert_array_equal(CodeIndex.load(tmp_path / "i").ids, ids)


def test_append_adds_to_the_index_under_ids_of_its_kind(run, files, model, folder, tmp_path):
    (tmp_path / "more.txt").write_text("\n".join(str(number) for number in range(1000, 1060)))
    command = (
        "index",
        model,
        files / "queries.npz",
        "-o",
        folder,
        "--append",
        "--ids",
        tmp_path / "more.txt",
    )
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "Added 60 items" in result.output
    index = CodeIndex.load(folder)
    assert len(index) == 360
    assert index.ids[-1] == "1059"


def test_processes_that_append_at_once_lose_nothing(run, fork, files, model, tmp_path, monkeypatch):
    """Every process waits before its first save until all have loaded the index. So only one of these saves can succeed."""
    folder = tmp_path / "i"
    CodeIndex(load_model(model)).save(folder)
    all_have_loaded = multiprocessing.Barrier(3)
    save, firsts = CodeIndex.save, iter([all_have_loaded.wait])  # each child has an iterator of its own

    def save_when_all_have_loaded(index, path, **options):
        next(firsts, lambda: None)()
        save(index, path, **options)

    def append(number):
        command = ("index", model, files / "queries.npz", "-o", folder, "--append")
        result = run(*command, "--ids", tmp_path / f"{number}.txt", "--jobs", "1")
        assert result.exit_code == 0, result.output

    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("\n".join(f"{number}/{i}" for i in range(60)))
    monkeypatch.setattr(CodeIndex, "save", save_when_all_have_loaded)
    children = [fork(partial(append, number)) for number in range(3)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    expected = {f"{number}/{i}" for number in range(3) for i in range(60)}
    assert set(CodeIndex.load(folder, verify="full").ids) == expected


def test_append_starts_again_from_what_another_process_has_saved(
    run, files, model, folder, tmp_path, monkeypatch
):
    """Another process appends between the load and the save, twice."""
    (tmp_path / "more.txt").write_text("\n".join(f"more/{i}" for i in range(60)))
    save, others = CodeIndex.save, iter(["first", "second"])

    def save_after_another(index, path, **options):
        other = next(others, None)
        if other is not None:
            there = CodeIndex.load(path)
            save(there.add_codes(there.codes(["007"]), ids=[other]), path)
        save(index, path, **options)

    monkeypatch.setattr(CodeIndex, "save", save_after_another)
    command = ("index", model, files / "queries.npz", "-o", folder, "--append")
    result = run(*command, "--ids", tmp_path / "more.txt")
    assert result.exit_code == 0, result.output
    assert "362 items" in result.output
    ids = CodeIndex.load(folder).ids
    assert ids[300:303].tolist() == ["first", "second", "more/0"]


def test_an_index_that_appears_in_the_meantime_is_not_replaced(run, files, model, tmp_path, monkeypatch):
    save = CodeIndex.save

    def save_after_another(index, path, **options):
        save(CodeIndex(index.codec), path, **options)
        save(index, path, **options)

    monkeypatch.setattr(CodeIndex, "save", save_after_another)
    result = run("index", model, files / "queries.npz", "-o", tmp_path / "i")
    assert result.exit_code == 2
    assert "holds another index already" in result.stderr
    assert len(CodeIndex.load(tmp_path / "i")) == 0


def test_an_existing_index_is_replaced_only_on_request(run, files, model, folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run("index", model, files / "queries.npz", "-o", folder)
    assert result.exit_code == 2
    assert "--append" in result.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert run("index", model, files / "queries.npz", "-o", folder, "--replace").exit_code == 0
    assert len(CodeIndex.load(folder)) == 60


def test_append_refuses_another_model(run, files, folder, tmp_path):
    fit = ("fit", files / "train.npz", "-o", tmp_path / "other", "--bits", 16, "--max-iter", 1, "--seed", 9)
    assert run(*fit).exit_code == 0
    result = run("index", tmp_path / "other", files / "queries.npz", "-o", folder, "--append")
    assert result.exit_code == 2
    assert "another model" in result.stderr


@pytest.fixture
def expected(folder, files):
    (Q,) = read_arrays(files / "queries.npz", ("X",))
    return CodeIndex.load(folder).search(Q, 4)


def test_answers_in_an_npz_file(run, folder, files, tmp_path, expected):
    result = run("search", folder, files / "queries.npz", "-k", 4, "-o", tmp_path / "a.npz")
    assert result.exit_code == 0, result.output
    scores, ids = read_arrays(tmp_path / "a.npz", ("scores", "ids"))
    np.testing.assert_array_equal(scores, expected[0])
    np.testing.assert_array_equal(ids, expected[1].astype(str))


def test_answers_in_a_csv_file(run, folder, files, tmp_path, expected):
    run("search", folder, files / "queries.npz", "-k", 4, "-o", tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 240
    assert [line["id"] for line in lines] == expected[1].ravel().tolist()
    assert [(lines[5]["query"], lines[5]["rank"])] == [("1", "2")]
    np.testing.assert_array_equal([float(line["score"]) for line in lines], expected[0].ravel())


def test_answers_in_a_jsonl_file(run, folder, files, tmp_path, expected):
    run("search", folder, files / "queries.npz", "-k", 4, "-o", tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [line["query"] for line in lines] == list(range(60))
    assert [line["ids"] for line in lines] == expected[1].tolist()
    assert [line["scores"] for line in lines] == expected[0].tolist()


@pytest.mark.parametrize("kind", [".npz", ".csv", ".jsonl"])
def test_a_full_disk_leaves_the_old_answers(works_in_child, tmp_path, kind):
    """A limit on file size stands in for the full disk."""
    path = tmp_path / f"a{kind}"
    path.write_text("old")

    def write():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with pytest.raises(OSError, match="could not save, nothing was changed: File too large"):
            write_answers(path, np.ones((300, 100)), np.ones((300, 100), dtype=np.int64))

    assert works_in_child(write)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", [".npy", ".csv"])
def test_queries_are_read_from_other_kinds_of_files(run, folder, files, tmp_path, expected, kind):
    (Q,) = read_arrays(files / "queries.npz", ("X",))
    path = tmp_path / f"queries{kind}"
    if kind == ".npy":
        np.save(path, Q)
    else:
        np.savetxt(path, Q, delimiter=",", fmt="%.9g")
    run("search", folder, path, "-k", 4, "-o", tmp_path / "a.npz")
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.npz", ("ids",))[0], expected[1].astype(str))


def test_without_a_file_the_first_queries_are_shown(run, folder, files, expected):
    result = run("search", folder, files / "queries.npz", "-k", 4)
    assert result.exit_code == 0, result.output
    for query in range(3):
        for name in expected[1][query]:
            assert f" {name} " in result.output
    assert "57 more queries" in result.output


def test_ids_are_shown_as_they_are(run, files, model, tmp_path):
    (tmp_path / "ids.txt").write_text("\n".join(f"[bold]{number}[/]" for number in range(60)))
    run("index", model, files / "queries.npz", "-o", tmp_path / "i", "--ids", tmp_path / "ids.txt")
    assert "[bold]" in run("search", tmp_path / "i", files / "queries.npz", "-k", 1).output


def test_where_restricts_the_search(run, folder, files, tmp_path):
    (tmp_path / "some.txt").write_text("005\n110\n")
    result = run(
        "search", folder, files / "queries.npz", "-o", tmp_path / "a.npz", "--where", tmp_path / "some.txt"
    )
    assert result.exit_code == 0, result.output
    (ids,) = read_arrays(tmp_path / "a.npz", ("ids",))
    assert {tuple(sorted(row)) for row in ids.tolist()} == {("005", "110")}


def test_first_answers_are_ordered_by_vectors(run, files, model, items, tmp_path):
    made = run("index", model, files / "items.npz", "-o", tmp_path / "kept", "--keep-vectors", "int8")
    assert made.exit_code == 0, made.output
    assert "2 bytes per code, " in made.output
    index = CodeIndex.load(tmp_path / "kept")
    Q = read_arrays(files / "queries.npz", ("X",))[0]
    for place, from_source in (("kept", []), ("plain", ["--refine-from", files / "items.npz"])):
        if place == "plain":
            run("index", model, files / "items.npz", "-o", tmp_path / place)
        asked = ("search", tmp_path / place, files / "queries.npz", "-k", 4, "-o", tmp_path / "a.npz")
        result = run(*asked, "--refine", 50, *from_source)
        assert result.exit_code == 0, result.output
        ids = read_arrays(tmp_path / "a.npz", ("ids",))[0]
        assert (ids == index.search(Q, 4, refine=50)[1]).mean() > 0.9
    assert (
        "keeps no vectors" in run("search", tmp_path / "plain", files / "queries.npz", "--refine", 5).output
    )
    wrong = run(
        "index", model, files / "items.npz", "-o", tmp_path / "kept", "--append", "--keep-vectors", "int8"
    )
    assert "--keep-vectors is for a new index" in wrong.output
    # items that are added later come with their vectors
    more = run("add", tmp_path / "kept", files / "queries.npz")
    assert more.exit_code == 0, more.output
    found = CodeIndex.load(tmp_path / "kept").search(Q, 1, ranking="position", refine=300)[1][:, 0]
    assert (found == np.arange(300, 360)).mean() > 0.95


def test_info_of_an_index(run, folder):
    CodeIndex.load(folder).remove(["001", "002"]).save(folder)
    output = run("info", folder).output
    for fact in ("298", "strings", "bytes per row", "instruction set", "distinct codes"):
        assert fact in output


def test_info_of_an_index_without_rows(run, model, tmp_path):
    CodeIndex(SupervisedQuantizer.load(model)).save(tmp_path / "empty")
    result = run("info", tmp_path / "empty")
    assert result.exit_code == 0, result.output
    assert "none yet" in result.output


def mistakes(files, model, folder, place):
    """Return arguments, each with a part of the line of the error."""
    np.savez(place / "narrow.npz", X=np.zeros((5, 3)))
    np.save(place / "flat.npy", np.zeros(64))
    np.save(place / "floats.npy", np.zeros(300))
    (place / "few.txt").write_text("1\n2\n")
    (place / "unknown.txt").write_text("nobody\n")
    (place / "twice.txt").write_text("\n".join(["a"] * 60))
    (place / "wide.csv").write_text("a,b\n" * 60)
    (place / "huge.txt").write_text("\n".join(["9" * 30] * 60))
    (place / "foreign").mkdir()
    (place / "foreign" / "letter.txt").write_text("dear")
    (place / "damaged").mkdir()
    for path in folder.iterdir():
        (place / "damaged" / path.name).write_bytes(path.read_bytes()[:-5])
    queries, new = files / "queries.npz", ("-o", place / "new")
    index, search = ("index", model, queries), ("search", folder, queries)
    return [
        (("index", place / "nowhere", queries, *new), "nowhere"),
        (("index", queries, queries, *new), "queries.npz"),
        (("index", model, place / "nowhere.npy", *new), "no such file"),
        (("index", model, place / "narrow.npz", *new), "3 features"),
        ((*index, *new, "--ids", place / "nowhere.txt"), "no such file"),
        ((*index, *new, "--ids", place / "few.txt"), "2 lines of ids for 60 rows"),
        ((*index, *new, "--ids", place / "twice.txt"), "more than once"),
        ((*index, *new, "--ids", place / "wide.csv"), "expected one id"),
        ((*index, *new, "--ids", place / "huge.txt"), "more than once"),
        ((*index, *new, "--ids", place / "floats.npy"), "integers or strings"),
        ((*index, *new, "--labels", place / "few.txt"), "2 lines of labels for 60 rows"),
        ((*index, *new, "--append"), "there is no index"),
        ((*index, *new, "--append", "--replace"), "one of them"),
        ((*index, "-o", place / "foreign"), "exists already"),
        ((*index, "-o", place / "foreign", "--append"), "no index"),
        ((*index, "-o", place / "foreign", "--replace"), "letter.txt"),
        ((*index, "-o", model), "is a file"),
        ((*index, "-o", place / "no" / "folder"), "there is no folder"),
        ((*index, "-o", folder, "--append"), "strings as ids"),
        (("search", place / "nowhere", queries), "nowhere"),
        (("search", model, queries), "no index"),
        (("search", place / "foreign", queries), "no index"),
        (("search", place / "damaged", queries), "damaged"),
        (("search", folder, place / "nowhere.npy"), "no such file"),
        (("search", folder, place / "narrow.npz"), "3 features"),
        (("search", folder, place / "flat.npy"), "has shape (64,)"),
        ((*search, "-k", 0), "k must be"),
        ((*search, "--ranking", "x"), "ranking"),
        ((*search, "--jobs", 0), "n_jobs"),
        ((*search, "--where", place / "unknown.txt"), "nobody"),
        ((*search, "-o", place / "answers.txt"), ".npz or .csv or .jsonl"),
        ((*search, "-o", place), "is a folder"),
        (("info", place / "foreign"), "no index"),
        (("info", place / "damaged"), "damaged"),
    ]


def test_mistakes_are_answered_in_one_line_with_exit_code_2(run, files, model, folder, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for arguments, part in mistakes(files, model, folder, place):
        result = run(*arguments)
        assert result.exit_code == 2, (arguments, result.output, result.exception)
        assert part in result.stderr, (arguments, result.stderr)
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert not (place / "new").exists()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
