"""Folders behind symbolic links, files that only their user may read, and clocks that go back."""

import os
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import supquant
from supquant import CodeIndex, SaveConflictError
from supquant.index import manifest


@pytest.fixture
def index(tied_codec):
    return CodeIndex(tied_codec).add_codes(np.zeros((9, 3), np.uint8), metadata={"price": range(9)})


def test_an_index_behind_a_symbolic_link_is_the_index(index, tmp_path):
    index.save(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    other = CodeIndex.load(tmp_path / "link").remove([1])
    other.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(CodeIndex.load(tmp_path / "real")) == 8
    with pytest.raises(SaveConflictError):  # the same folder by its other name
        index.save(tmp_path / "link")
    index.reload(discard=True).remove([2]).save(tmp_path / "link")
    assert len(other.reload()) == 7


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o027, 0o640)])
def test_files_get_the_permissions_that_the_umask_leaves(index, tmp_path, mask, expected):
    before = os.umask(mask)
    try:
        index.save(tmp_path / "index")
        index.remove([1]).save(tmp_path / "index")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "index").iterdir()}
    assert {mode for name, mode in modes.items() if not name.startswith(".")} == {expected}
    assert len(CodeIndex.load(tmp_path / "index")) == 8


def test_a_clock_that_goes_back_loses_no_change(index, tmp_path, monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2001, 1, 1, tzinfo=UTC)

    index.save(tmp_path / "index")
    other = CodeIndex.load(tmp_path / "index")
    monkeypatch.setattr(manifest, "datetime", Clock)
    index.remove([1]).save(tmp_path / "index")
    past = (datetime.now(UTC) - timedelta(days=9000)).timestamp()
    for path in (tmp_path / "index").iterdir():
        os.utime(path, (past, past))
    with pytest.raises(SaveConflictError, match="2001-01-01"):
        other.remove([2]).save(tmp_path / "index")
    assert len(other.reload(discard=True)) == 8
    other.remove([2]).save(tmp_path / "index")
    assert len(index.reload()) == 7


def test_a_manifest_behind_a_link_stays_a_link(index, tmp_path):
    index.save(tmp_path / "index")
    (tmp_path / "index" / "manifest.json").rename(tmp_path / "manifest.json")
    (tmp_path / "index" / "manifest.json").symlink_to("../manifest.json")
    CodeIndex.load(tmp_path / "index").remove([1]).save(tmp_path / "index")
    assert (tmp_path / "index" / "manifest.json").is_symlink()
    assert len(CodeIndex.load(tmp_path / "index")) == 8


def test_only_the_record_of_a_save_asks_for_the_time_of_day():
    source = Path(supquant.__file__).parent
    asking = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"time\.time\(|time_ns\(\)|\.now\(|\.today\(|utcnow", path.read_text(encoding="utf-8"))
    }
    assert asking == {"index/manifest.py"}
