import json
import re
import resource
import signal
import subprocess
import sys
import textwrap
from importlib.metadata import version

import numpy as np
import pytest
from npz import read_arrays

from supquant import SupervisedQuantizer, load_model
from supquant.models import METHODS, method_names


def test_info_names_version_instruction_set_and_threads(run):
    result = run("info")
    assert result.exit_code == 0
    for fact in ("supquant", "instruction set", "threads"):
        assert fact in result.output


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "supquant", "--version"]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        == f"supquant {version('supquant')}\n"
    )


def test_version_is_that_of_the_package(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"supquant {version('supquant')}\n"


def test_info_of_a_model(run, model):
    output = run("info", model).output
    assert "bytes per code          2" in output
    assert "64 dimensions" in output
    assert "10: 0, 1, 2, 3, 4, 5, 6, 7, ..." in output


@pytest.mark.parametrize("vectors", ["X.npy", "X.csv"])
def test_vectors_and_labels_may_be_in_two_files(run, files, tmp_path, vectors):
    result = run(
        "fit",
        files / vectors,
        "--labels",
        files / "y.txt",
        "-o",
        tmp_path / "m",
        "--bits",
        8,
        "--max-iter",
        1,
    )
    assert result.exit_code == 0, result.output
    assert SupervisedQuantizer.load(tmp_path / "m").classes_[0] == "digit 0"


def test_the_same_seed_gives_the_same_file(run, files, tmp_path):
    for name in ("one", "two"):
        run("fit", files / "train.npz", "-o", tmp_path / name, "--bits", 16, "--max-iter", 1, "--seed", 5)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_longer_model_starts_from_a_shorter_one(run, files, model, tmp_path):
    result = run(
        "fit", files / "train.npz", "-o", tmp_path / "m", "--bits", 24, "--init", model, "--max-iter", 1
    )
    assert result.exit_code == 0, result.output
    assert SupervisedQuantizer.load(tmp_path / "m").codec_.n_codebooks == 3


@pytest.mark.parametrize("name", ["codes.npy", "codes.npz"])
def test_encode_writes_what_the_model_encodes(run, files, model, tmp_path, name):
    result = run("encode", model, files / "items.npz", "-o", tmp_path / name)
    assert result.exit_code == 0, result.output
    codes = np.load(tmp_path / name) if name == "codes.npy" else read_arrays(tmp_path / name, ("codes",))[0]
    (X,) = read_arrays(files / "items.npz", ("X",))
    np.testing.assert_array_equal(codes, SupervisedQuantizer.load(model).encode(X))


@pytest.mark.parametrize("kind", [".npy", ".npz"])
def test_a_full_disk_leaves_the_old_codes(run, works_in_child, model, tmp_path, kind):
    """A limit on file size stands in for the full disk."""
    np.save(tmp_path / "X.npy", np.zeros((5000, 64), dtype=np.uint8))
    path = tmp_path / f"codes{kind}"
    path.write_text("old")

    def encode():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
        result = run("encode", model, tmp_path / "X.npy", "-o", path)
        assert result.exit_code != 0
        assert "nothing was changed" in result.stderr

    assert works_in_child(encode)
    assert path.read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["X.npy", path.name]


def test_encode_with_labels_uses_them(run, files, model, tmp_path):
    run("encode", model, files / "items.npz", "--labels", files / "items.npz", "-o", tmp_path / "codes.npy")
    X, y = read_arrays(files / "items.npz", ("X", "y"))
    expected = SupervisedQuantizer.load(model).encode(X, y)
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), expected)


def test_evaluate_prints_and_writes_map(run, files, model, tmp_path):
    base = ("evaluate", model, "--database", files / "items.npz", "--queries", files / "queries.npz")
    result = run(*base, "--json", tmp_path / "plain.json")
    assert result.exit_code == 0, result.output
    plain = json.loads((tmp_path / "plain.json").read_text())
    assert f"{plain['map']:.4f}" in result.output
    assert plain["map"] > 0.5
    run(*base, "--with-labels", "--json", tmp_path / "labelled.json")
    assert json.loads((tmp_path / "labelled.json").read_text())["map"] > plain["map"]


def test_evaluate_says_how_many_queries_have_no_answer(run, files, model, tmp_path):
    X, y = read_arrays(files / "items.npz", ("X", "y"))
    np.savez(tmp_path / "items.npz", X=X[y > 0], y=y[y > 0])
    query_y = read_arrays(files / "queries.npz", ("y",))[0]
    result = run(
        "evaluate",
        model,
        "--database",
        tmp_path / "items.npz",
        "--queries",
        files / "queries.npz",
        "--json",
        tmp_path / "found.json",
    )
    n = int((query_y == 0).sum())
    assert n > 0
    assert f"{n} of {len(query_y)} queries share no label with any item, and count as 0." in result.stdout
    assert json.loads((tmp_path / "found.json").read_text())["n_without_answer"] == n


def test_evaluate_leaves_out_rows_without_labels(run, files, model, tmp_path):
    X, y = read_arrays(files / "items.npz", ("X", "y"))
    few = [str(label) if row % 3 else "" for row, label in enumerate(y)]
    np.savez(tmp_path / "few.npz", X=X, y=few)
    np.savez(tmp_path / "known.npz", X=X[np.arange(300) % 3 > 0], y=[label for label in few if label])
    np.savez(tmp_path / "none.npz", X=X, y=[""] * 300)
    Q, query_y = read_arrays(files / "queries.npz", ("X", "y"))
    np.savez(tmp_path / "queries.npz", X=Q, y=query_y.astype(str))
    found = {
        name: run(
            "evaluate", model, "--database", tmp_path / f"{name}.npz", "--queries", tmp_path / "queries.npz"
        )
        for name in ("few", "known", "none")
    }
    assert "100 of 300 rows have no label and are left out" in found["few"].output
    assert found["few"].stdout == found["known"].stdout
    assert "200 items" in found["known"].stdout
    assert found["none"].exit_code == 2
    assert "no row has a label" in found["none"].output


def mistakes(files, model, folder):
    """Return arguments, each with a part of the line of the error."""
    np.save(folder / "nan.npy", np.full((500, 64), np.nan))
    np.savez(folder / "narrow.npz", X=np.zeros((5, 3)), y=[0, 1, 0, 1, 0])
    np.save(folder / "short.npy", np.arange(10))
    (folder / "words.csv").write_text("1,2\n3,four\n")
    (folder / "uneven.csv").write_text("1,2\n3\n")
    (folder / "broken.safetensors").write_bytes(model.read_bytes()[:-100])
    (folder / "foreign.npy").write_bytes(b"nothing of ours")
    train, out = files / "train.npz", ("-o", folder / "out")
    return [
        (("fit", folder / "nowhere.npz", *out), "no such file"),
        (("fit", files / "X.npy", *out), "has no labels"),
        (("fit", folder / "nan.npy", "--labels", files / "y.txt", *out), "NaN"),
        (("fit", folder / "words.csv", "--labels", files / "y.txt", *out), "where a number is expected"),
        (("fit", folder / "uneven.csv", "--labels", files / "y.txt", *out), "Expected 2 columns, got 1"),
        (("fit", folder / "foreign.npy", "--labels", files / "y.txt", *out), "is not a npy file"),
        (
            ("fit", files / "y.txt", "--labels", files / "y.txt", *out),
            "no column is known to hold the vectors",
        ),
        (("fit", files / "X.npy", "--labels", folder / "short.npy", *out), "10"),
        (("fit", train, "--bits", 12, *out), "multiple of 8"),
        (("fit", train, "--method", "published", "--quantization-weight", 0, *out), "quantization_weight"),
        (("fit", train, "--method", "published", "--solver", "magic", *out), "solver"),
        (("fit", train, "-o", folder / "no" / "such" / "folder"), "there is no folder"),
        (("fit", train, "-o", folder), "is a folder"),
        (("fit", folder / "narrow.npz", *out), "256"),
        (("fit", train, "--frobnicate"), "--frobnicate"),
        (("encode", folder / "broken.safetensors", train, *out[:1], folder / "c.npy"), "broken.safetensors"),
        (("encode", folder / "absent.safetensors", train, "-o", folder / "c.npy"), "absent.safetensors"),
        (("encode", model, folder / "narrow.npz", "-o", folder / "c.npy"), "3 features"),
        (("encode", model, train, "-o", folder / "codes.txt"), ".npy or .npz"),
        (("evaluate", model, "--database", folder / "narrow.npz", "--queries", train), "3 features"),
        (("evaluate", model, "--database", train, "--queries", train, "--ranking", "x"), "ranking"),
        (("evaluate", model, "--database", train, "--queries", train, "--cut", 0), "cut"),
        (("info", folder / "broken.safetensors"), "broken.safetensors"),
        (("info", train), "train.npz"),
    ]


def test_mistakes_are_answered_in_one_line_with_exit_code_2(run, files, model, tmp_path):
    for arguments, part in mistakes(files, model, tmp_path):
        result = run(*arguments)
        assert result.exit_code == 2, (arguments, result.output, result.exception)
        assert part in result.stderr, (arguments, result.stderr)
        if "--frobnicate" not in arguments:  # errors of the parser also show how the command is used
            *before, last = result.stderr.strip().splitlines()
            assert last.startswith("Error: "), result.stderr
            assert all(line.startswith("Read") for line in before), (
                result.stderr
            )  # the words of a fit come first
    assert not (tmp_path / "out").exists()


def test_the_first_words_of_a_fit_do_not_wait_for_scikit_learn(tmp_path):
    program = """
        import sys
        from supquant.cli import main
        try:
            main()
        finally:
            assert "sklearn" not in sys.modules
    """
    command = [sys.executable, "-c", textwrap.dedent(program), "fit", tmp_path / "nowhere.parquet"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        f"Reading {tmp_path / 'nowhere.parquet'} ...",
        f"Error: no such file: {tmp_path / 'nowhere.parquet'}",
    ]


def test_help_of_a_fit_names_the_methods_of_the_library_without_waiting_for_scikit_learn():
    program = "import sys; from supquant.cli import app; app(standalone_mode=False); print(*sys.modules)"
    command = [sys.executable, "-c", program, "fit", "--help"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    named = output.replace("│", " ").split()
    for method in METHODS:
        assert {method, f"{method},", f"{method}."} & set(named)
    for method in set(method_names()) - set(METHODS):  # of the lab
        assert not {method, f"{method},", f"{method}."} & set(named)
    assert "sklearn" not in named


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--method", "sp"), "method must be 'sq' or 'published' or 'cq' or 'pq' or 'opq'"),
        (("--bits", 7), "bits must be a multiple of 8, one byte per codebook; got 7"),
    ],
)
def test_a_method_and_its_bits_are_checked_before_anything_is_read(run, tmp_path, options, error):
    result = run("fit", tmp_path / "nowhere.parquet", *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {error}")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--solver", "joint"), "the method sq has no parameter 'solver'; it is one of the method published"),
        (
            ("--set", "max_turns=1"),
            "the method sq has no parameter 'max_turns'; it is one of the method published",
        ),
        (("--method", "pq", "--components", 8), "the method pq has no parameter 'n_components'"),
        (
            ("--method", "published", "--set", "new_classes=0"),
            "the method published has no parameter 'new_classes'; it is one of the method sq",
        ),
        (("--set", "frob=1"), "the method sq has no parameter 'frob'; it has callback"),
        (
            ("--anchors", 50),
            "--anchors is an option of --method published; the method sq has no anchors",
        ),
    ],
)
def test_an_option_without_effect_is_refused_with_the_method_it_belongs_to(
    run, files, tmp_path, options, error
):
    result = run("fit", files / "train.npz", "-o", tmp_path / "m", *options)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"Error: {error}")


INTERRUPT = """
import os, signal, sys
from contextlib import contextmanager
from supquant.cli import fit, main

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background otherwise

@contextmanager
def interrupting():
    def callback(event):
        if event.step == {step}:
            os.kill(os.getpid(), signal.SIGINT)
    yield callback

fit.progress_bars = interrupting
if {step} == 0:
    fit.open_items = lambda *_: os.kill(os.getpid(), signal.SIGINT)
main()
"""


def interrupted_fit(files, output, step):
    command = [sys.executable, "-c", INTERRUPT.format(step=step), "fit", files / "train.npz", "-o", output]
    return subprocess.run(
        [*command, "--bits", "16", "--method", "published", "--anchors", "50"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_interrupted_fit_saves_the_best_model_so_far(files, tmp_path):
    ended = interrupted_fit(files, tmp_path / "model", step=1)
    assert ended.returncode == 130, ended.stderr
    assert "best model so far" in ended.stderr
    assert "Traceback" not in ended.stderr
    (X,) = read_arrays(files / "items.npz", ("X",))
    assert load_model(tmp_path / "model").encode(X).shape == (300, 2)


def test_interrupt_before_there_is_a_model_writes_nothing(files, tmp_path):
    ended = interrupted_fit(files, tmp_path / "model", step=0)
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("method", [*METHODS, "classifier", "classifier-bits"])
def test_every_method_can_be_fitted_encoded_indexed_searched_and_described(run, files, tmp_path, method):
    model, codes, index = tmp_path / "m", tmp_path / "codes.npy", tmp_path / "items.index"
    quick = ("--max-iter", 2) if method == "cq" else ()
    for arguments in (
        ("fit", files / "train.npz", "-o", model, "--method", method, "--bits", 16, *quick),
        ("encode", model, files / "items.npz", "-o", codes),
        ("evaluate", model, "--database", files / "items.npz", "--queries", files / "queries.npz"),
        ("index", model, files / "items.npz", "-o", index),
        ("search", index, files / "queries.npz", "-k", 3),
        ("info", model),
    ):
        result = run(*arguments)
        assert result.exit_code == 0, result.output
    assert np.load(codes).shape == (300, 1 if method == "classifier" else 2)
    assert type(load_model(model)).__name__ in result.output


def test_parameters_of_a_method_are_set_by_name(run, files, tmp_path):
    arguments = (
        "fit",
        files / "train.npz",
        "-o",
        tmp_path / "m",
        "--method",
        "classifier-bits",
        "--set",
        "ridge=0.25",
    )
    assert run(*arguments, "--anchors", 0).exit_code == 0
    assert load_model(tmp_path / "m").ridge == 0.25
    assert load_model(tmp_path / "m").codec_.feature_map is None
    result = run(*arguments[:-1], "solver=joint")
    assert (result.exit_code, "has no parameter 'solver'" in result.output) == (2, True)


def test_a_forecast_comes_before_the_fit(run, files, tmp_path):
    command = ("fit", files / "train.npz", "--bits", 16, "--max-iter", 1, "--forecast")
    result = run(*command, "-o", tmp_path / "model")
    assert result.exit_code == 0
    first, *summary, last = result.stdout.splitlines()
    assert any("different ones of 2 bytes" in line for line in summary)
    assert first.startswith("MAP 0.")
    assert "without" in first
    assert last.startswith("Wrote")


@pytest.mark.parametrize("jobs", [100_000, 2**40])
def test_too_many_jobs_are_reduced(run, files, tmp_path, jobs):
    arguments = ("fit", files / "train.npz", "--bits", 8, "--max-iter", 1)
    assert run(*arguments, "-o", tmp_path / "one", "--jobs", 1).exit_code == 0
    result = run(*arguments, "-o", tmp_path / "many", "--jobs", jobs)
    assert result.exit_code == 0, result.output
    X = read_arrays(files / "items.npz", ("X",))[0]
    one, many = (load_model(tmp_path / name).encode(X) for name in ("one", "many"))
    np.testing.assert_array_equal(one, many)


def test_a_fit_in_a_pipe_prints_a_line_for_each_stage_and_ends_with_a_summary(run, files, tmp_path):
    result = run("fit", files / "train.npz", "--bits", 16, "--max-iter", 1, "-o", tmp_path / "model")
    assert result.exit_code == 0
    reading, read, *lines = result.stderr.splitlines()
    assert reading == f"Reading {files / 'train.npz'} ..."
    assert read == "Read 500 rows of 64 numbers."
    assert [line.rpartition(", ")[0] for line in lines] == [
        "classifier",
        "new classes",
        "features",
        "codes, 2 codebooks, 1/2",
        "calibration",
    ]
    assert all(re.fullmatch(r".*, \d+ s so far", line) for line in lines)
    assert "\r" not in result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "rows",
        "labels",
        "codes",
        "MAP",
        "Wrote",
    ]


def test_encode_by_workers_writes_a_file_for_each_file_and_resumes(run, model, files, tmp_path):
    import pyarrow.parquet as pq

    (tmp_path / "in").mkdir()
    X = np.load(files / "X.npy")
    for number, part in enumerate(np.split(X, 2)):
        np.save(tmp_path / "in" / f"x{number}.npy", part)
    arguments = ("encode", model, tmp_path / "in", "-o", tmp_path / "codes", "--workers", 1)
    assert "500 codes in 2 files." in run(*arguments).output
    codes = pq.read_table(tmp_path / "codes")["code"].to_pylist()
    assert b"".join(codes) == SupervisedQuantizer.load(model).encode(X).tobytes()
    assert "2 of which existed already" in run(*arguments).output


@pytest.mark.parametrize(
    "command", [["fit", "x"], ["encode", "m", "x"], ["search", "i", "q"], ["index", "m", "x"], ["serve", "i"]]
)
def test_a_gpu_that_is_not_there_is_one_line(run, monkeypatch, command):
    reason = "there is no GPU that CUDA can use here"
    monkeypatch.setattr("supquant.kernels.device.why_no_gpu", lambda: reason)
    result = run(*command, "--device", "cuda")
    assert result.exit_code == 2
    assert result.output.strip() == f"Error: {reason}"


def test_only_known_devices_are_taken(run):
    result = run("encode", "m", "x", "--device", "tpu")
    assert result.exit_code == 2
    assert "device must be 'cpu', 'cuda' or 'auto', got 'tpu'" in " ".join(result.output.split())
