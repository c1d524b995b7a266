"""Index folders of every format version that was ever released are read for ever.

The folders in ``tests/fixtures`` and the answers beside them were written once by ``make_index_fixtures.py`` there and are never
written again. A new version gets new folders.
"""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from supquant import CodeIndex

FIXTURES = Path(__file__).parent.parent / "fixtures"
VERSION_1 = ("automatic", "integers", "strings", "grouped", "deletions", "everything", "binary", "empty")


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_index_fixtures", FIXTURES / "make_index_fixtures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=[f"index-v1-{name}" for name in VERSION_1])
def kept(request):
    """A folder of old and the answers it must give."""
    folder = FIXTURES / request.param
    return folder, json.loads(Path(f"{folder}.json").read_text("utf-8"))


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
    if folder.name.endswith("integers"):
        new_ids = [10_001, 10_002]
    index.add_codes(np.zeros((2, index.codec.n_codebooks), dtype=np.uint8), ids=new_ids)
    index.save(copied)
    again = CodeIndex.load(copied, verify="full")
    assert maker.answers(again) == maker.answers(index)
    assert list(again.ids)[:-2] == ids[::2]
    if new_ids is None:  # numbers that were given are never given again, not even those of removed rows
        given = 139 if folder.name.endswith("deletions") else len(ids)
        assert list(again.ids)[-2:] == [given, given + 1]
    assert [code.tobytes().hex() for code in again.codes(ids[::2])] == expected["codes"][::2]


def test_fixtures_can_be_made_and_are_never_overwritten(maker, tmp_path, contents):
    maker.write(tmp_path)
    for name in VERSION_1:
        folder = tmp_path / f"index-v1-{name}"
        index = CodeIndex.load(folder, verify="full")
        expected = json.loads(Path(f"{folder}.json").read_text("utf-8"))
        assert maker.answers(index) == expected
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
