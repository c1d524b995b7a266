"""From the first release on, files of every format version are read forever.

The folders and files in ``tests/fixtures``, and the answers next to them, were written by ``make_index_fixtures.py`` there.
"""

import gzip
import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xxhash

from supquant import CodeIndex, FileFormatError, load_model, storage

FIXTURES = Path(__file__).parent.parent / "fixtures"
INDEXES = ("numbers", "texts", "sorted", "columns", "empty")


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_index_fixtures", FIXTURES / "make_index_fixtures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kept_answers(path):
    return json.loads(gzip.decompress(Path(f"{path}.json.gz").read_bytes()))


@pytest.fixture(params=INDEXES)
def kept(request):
    """A kept folder and the answers that it must give."""
    folder = FIXTURES / f"index-{request.param}"
    return folder, kept_answers(folder)


@pytest.mark.parametrize("verify", ["full", "lazy"])
def test_a_kept_index_answers_as_it_did(kept, maker, verify):
    folder, expected = kept
    index = CodeIndex.load(folder, verify=verify)
    assert maker.answers(index) == expected
    assert maker.questions().tolist() == expected["queries"]


@pytest.mark.parametrize("name", ["supervised", "found", "published"])
def test_a_kept_model_answers_as_it_did(maker, name):
    path = FIXTURES / f"model-{name}"
    expected, found = kept_answers(path), maker.model_answers(load_model(path))
    for ranking, scores in expected.pop("scores").items():
        np.testing.assert_allclose(found["scores"][ranking], scores, rtol=1e-5)
    del found["scores"]
    assert found == expected


def test_reading_a_kept_index_does_not_change_it(kept, maker, contents):
    folder, _ = kept
    before = contents(folder), sorted(file.stat().st_mtime_ns for file in folder.iterdir())
    maker.answers(CodeIndex.load(folder, verify="full"))
    assert (contents(folder), sorted(file.stat().st_mtime_ns for file in folder.iterdir())) == before


def test_a_kept_index_can_be_changed_and_saved(kept, maker, tmp_path):
    folder, expected = kept
    copied = tmp_path / "copy"
    shutil.copytree(folder, copied)
    index = CodeIndex.load(copied)
    ids = expected["ids"]
    if ids:
        index.remove(ids[1::2])
    new_ids = {"index-texts": ["new/1", "new/2"], "index-sorted": [10_001, 10_002]}.get(folder.name)
    index.add_codes(np.zeros((2, index.codec.n_codebooks), dtype=np.uint8), ids=new_ids)
    index.save(copied)
    again = CodeIndex.load(copied, verify="full")
    assert maker.answers(again) == maker.answers(index)
    assert list(again.ids)[:-2] == ids[::2]
    assert [code.tobytes().hex() for code in again.codes(ids[::2])] == expected["codes"][::2]
    if folder.name == "index-columns":
        assert again.get(ids[::2])["brand"].to_pylist() == expected["columns"]["brand"][::2]
    if new_ids is None:  # numbers are never given again, not even those of removed rows
        given = 139 if folder.name == "index-columns" else len(ids)
        assert list(again.ids)[-2:] == [given, given + 1]


def test_fixtures_can_be_made_and_are_never_overwritten(maker, tmp_path, contents):
    maker.write(tmp_path)
    for name in INDEXES:
        folder = tmp_path / f"index-{name}"
        assert json.loads((folder / "manifest.json").read_text())["version"] == 1
        assert kept_answers(folder) == kept_answers(FIXTURES / folder.name)
        assert sum(len(content) for content in contents(folder).values()) < 50_000
    before = contents(tmp_path / "index-texts")
    with pytest.raises(FileExistsError, match="never overwritten"):
        maker.write(tmp_path)
    assert contents(tmp_path / "index-texts") == before


def test_the_folders_show_every_form_an_index_can_take():
    forms = {name: CodeIndex.load(FIXTURES / f"index-{name}").info() for name in INDEXES}
    assert {form["id_kind"] for form in forms.values()} == {None, "automatic", "int64", "str"}
    segments = {name: [segment["grouped"] for segment in form["segments"]] for name, form in forms.items()}
    assert segments["numbers"] == [False]
    assert segments["texts"] == [True, False]
    assert forms["texts"]["removed"] > 0
    updated = CodeIndex.load(FIXTURES / "index-sorted")
    assert [layer.segment.n_rows for layer in updated._snapshot.parts[0].layers] == [1500, 150, 6]
    assert updated.info()["removed"] > 0
    assert forms["sorted"]["segments"][0]["sorted"]


def sign(folder, manifest):
    """Write a manifest with the digest that makes it look like one of ours."""
    unsigned = {key: value for key, value in manifest.items() if key != "digest"}
    digest = xxhash.xxh3_128_hexdigest(json.dumps(unsigned).encode())
    text = json.dumps({**unsigned, "digest": digest}, indent=2) + "\n"
    (folder / "manifest.json").write_text(text)


@pytest.fixture
def updated(tmp_path):
    """A copy of a folder with updates, and its manifest."""
    folder = tmp_path / "index"
    shutil.copytree(FIXTURES / "index-sorted", folder)
    return folder, json.loads((folder / "manifest.json").read_text())


@pytest.mark.parametrize(("row", "value"), [(0, 1500), (-1, 1500), (5, 2**32 - 1), (1, 0), (-1, 0)], ids=str)
def test_updates_of_rows_that_are_not_there_or_come_twice_are_refused(updated, row, value):
    folder, manifest = updated
    entry = manifest["segments"][0]["updates"][0]
    arrays, settings = storage.load_arrays(folder / entry["codes"], "codes")
    rows = arrays["updated"].copy()
    assert rows[0] == 0
    rows[row] = value
    packed = storage.pack_arrays("codes", {**arrays, "updated": rows}, settings)
    entry["codes"] = f"codes-{packed.digest[:16]}.safetensors"
    packed.write(folder / entry["codes"])
    sign(folder, manifest)
    with pytest.raises(FileFormatError, match=r"codes-.*'updated' does not ascend"):
        CodeIndex.load(folder, verify="full")
    with pytest.raises(FileFormatError, match=r"codes-.*'updated' does not ascend"):
        CodeIndex.load(folder).search(np.zeros((1, 4)))


def test_updates_that_no_manifest_can_have_are_refused(updated):
    folder, manifest = updated
    (segment,) = manifest["segments"]
    good = segment["updates"]
    for bad in (
        None,
        3,
        [3],
        [{}],
        [{**good[0], "rows": 0}],
        [{**good[0], "rows": 1501}],
        [{**good[0], "rows": 149}],
        [{**good[0], "codes": segment["ids"]}],
        [{**good[0], "codes": segment["codes"]}],
        [{**good[0], "live": None}],
    ):
        segment["updates"] = bad
        sign(folder, manifest)
        with pytest.raises(FileFormatError):
            CodeIndex.load(folder)
    segment["updates"] = good
    sign(folder, manifest)
    CodeIndex.load(folder, verify="full")


@pytest.mark.parametrize("version", [0, 2, "1", None, 1.0, True])
def test_a_folder_of_another_version_is_refused_in_one_line(updated, version):
    folder, manifest = updated
    sign(folder, manifest | {"version": version})
    with pytest.raises(
        FileFormatError, match=r"manifest\.json: format version .*, this supquant reads version 1$"
    ):
        CodeIndex.load(folder)
