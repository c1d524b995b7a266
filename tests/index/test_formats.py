"""Index folders of every format version that was ever released are read for ever.

The folders in ``tests/fixtures`` and the answers beside them were written once by ``make_index_fixtures.py`` there and are never
written again. A new version gets new folders.
"""

import gzip
import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xxhash

from supquant import CodeIndex, FileFormatError, storage

FIXTURES = Path(__file__).parent.parent / "fixtures"
VERSION_1 = ("automatic", "integers", "strings", "grouped", "deletions", "everything", "binary", "empty")


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_index_fixtures", FIXTURES / "make_index_fixtures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FOLDERS = [
    *(f"index-v1-{name}" for name in VERSION_1),
    "index-v2-updates",
    "index-v3-columns",
    "index-v4-sorted",
    "index-v4-texts",
]


def answers_beside(folder):
    return json.loads(gzip.decompress(Path(f"{folder}.json.gz").read_bytes()))


@pytest.fixture(params=FOLDERS)
def kept(request):
    """A folder of old and the answers it must give."""
    folder = FIXTURES / request.param
    return folder, answers_beside(folder)


@pytest.mark.parametrize("verify", ["full", "lazy"])
def test_an_index_of_an_old_version_answers_as_it_did(kept, maker, verify):
    folder, expected = kept
    index = CodeIndex.load(folder, verify=verify)
    assert maker.answers(index) == expected
    assert maker.questions().tolist() == expected["queries"]


def test_reading_an_old_index_does_not_touch_it(kept, maker, contents):
    folder, _ = kept
    before = contents(folder), sorted(file.stat().st_mtime_ns for file in folder.iterdir())
    maker.answers(CodeIndex.load(folder, verify="full"))
    assert (contents(folder), sorted(file.stat().st_mtime_ns for file in folder.iterdir())) == before


def test_an_old_index_can_be_changed_and_saved(kept, maker, tmp_path):
    folder, expected = kept
    copied = tmp_path / "copy"
    shutil.copytree(folder, copied)
    index = CodeIndex.load(copied)
    ids = expected["ids"]
    if ids:
        index.remove(ids[1::2])
    new_ids = ["new/1", "new/2"] if ids and isinstance(ids[0], str) else None
    if folder.name.endswith(("integers", "updates", "sorted")):
        new_ids = [10_001, 10_002]
    index.add_codes(np.zeros((2, index.codec.n_codebooks), dtype=np.uint8), ids=new_ids)
    index.save(copied)
    again = CodeIndex.load(copied, verify="full")
    assert maker.answers(again) == maker.answers(index)
    assert list(again.ids)[:-2] == ids[::2]
    if folder.name.endswith("columns"):
        assert again.get(ids[::2])["brand"].to_pylist() == expected["columns"]["brand"][::2]
        return
    if new_ids is None:  # numbers that were given are never given again, not even those of removed rows
        given = 139 if folder.name.endswith("deletions") else len(ids)
        assert list(again.ids)[-2:] == [given, given + 1]
    assert [code.tobytes().hex() for code in again.codes(ids[::2])] == expected["codes"][::2]


def test_fixtures_can_be_made_and_are_never_overwritten(maker, tmp_path, contents):
    maker.write(tmp_path)
    for name in FOLDERS:
        folder = tmp_path / name
        version = 4 if name[9:] in maker.COMPACT else int(name[7])
        assert json.loads((folder / "manifest.json").read_text())["version"] == version
        index = CodeIndex.load(folder, verify="full")
        assert maker.answers(index) == answers_beside(folder)
        assert sum(len(content) for content in contents(folder).values()) < 50_000
    before = contents(tmp_path / "index-v1-strings")
    with pytest.raises(FileExistsError, match="never written again"):
        maker.write(tmp_path)
    assert contents(tmp_path / "index-v1-strings") == before


def test_the_folders_show_every_form_an_index_can_take():
    forms = {name: CodeIndex.load(FIXTURES / f"index-v1-{name}").info() for name in VERSION_1}
    assert {form["id_kind"] for form in forms.values()} == {None, "automatic", "int64", "str"}
    segments = {name: [segment["grouped"] for segment in form["segments"]] for name, form in forms.items()}
    assert segments["grouped"] == [True]
    assert segments["automatic"] == [False]
    assert segments["everything"] == [True, False]
    assert forms["deletions"]["removed"] > 0
    assert forms["everything"]["removed"] > 0
    updated = CodeIndex.load(FIXTURES / "index-v2-updates")
    assert [layer.segment.n_rows for layer in updated._snapshot.parts[0].layers] == [1500, 150, 6]
    assert updated.info()["removed"] > 0
    (segment,) = CodeIndex.load(FIXTURES / "index-v4-sorted").info()["segments"]
    assert segment["sorted"]
    texts = {
        version: storage.load_arrays(next((FIXTURES / f"index-{version}").glob("ids-*")), "ids")[0][
            "hashes"
        ].dtype
        for version in ("v1-strings", "v4-texts")
    }
    assert texts == {"v1-strings": np.uint64, "v4-texts": np.uint32}


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
    shutil.copytree(FIXTURES / "index-v2-updates", folder)
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
    sign(folder, manifest | {"version": 1})
    with pytest.raises(FileFormatError, match="has updates, but the version is 1"):
        CodeIndex.load(folder)
