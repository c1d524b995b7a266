"""A save that is killed anywhere leaves the old index or the new one, whole, and nothing that a later save keeps."""

import errno
import os
import resource
import shutil
import signal
import stat
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from killed_saves import Saves, changed_index

from supquant import CodeIndex
from supquant.errors import FileFormatError

TIMED, MID_WRITE = 100, 30


class Kill(NamedTuple):
    how: str
    stage: str  # "before" the first write, "between" that and the commit, or "after" the commit
    found: str  # "old", "new", or what went wrong


class Scene:
    """An index in a folder, and a changed one that is about to be saved over it."""

    def __init__(self, home, codec, draw_codes, portrait, contents):
        self.portrait, self.contents = portrait, contents
        self.kept, self.folder = home / "kept", home / "index"
        self.judged = {}  # by the bytes of all files: many kills leave the same
        rng = np.random.default_rng(6)
        index = CodeIndex(codec)
        index.add_codes(draw_codes(codec, rng, 2400), ids=range(2400))
        index.add_codes(draw_codes(codec, rng, 1100, 5), ids=range(2400, 3500))
        index.remove(range(0, 3500, 9))
        index.save(self.kept)
        self.old = portrait(index)
        self.restore()
        changes = [
            ("remove", [range(1, 3500, 90)], {}),
            ("update_codes", [range(2, 3500, 90), draw_codes(codec, rng, 39)], {}),
            ("add_codes", [draw_codes(codec, rng, 1500)], {"ids": range(4000, 5500)}),
        ]
        self.changed = changed_index(self.folder, changes)
        self.children = Saves(self.folder, changes)
        self.new = portrait(self.changed)
        assert self.new != self.old
        forms = [(segment["sorted"], segment["grouped"]) for segment in self.changed.info()["segments"]]
        assert forms == [(True, False)] * len(forms), forms

    def restore(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.kept, self.folder)

    def save(self):
        # The folder is restored behind the index's back, and killed children commit to it.
        self.changed.save(self.folder, overwrite=True)

    def judge(self, how):
        """Say when a killed save was hit and what it left."""
        left = tuple(sorted((file.name, file.read_bytes()) for file in self.folder.iterdir()))
        if left not in self.judged:
            self.judged[left] = self._judge()
        return Kill(how, *self.judged[left])

    def _judge(self):
        before, now = self.contents(self.kept), self.contents(self.folder)
        committed = now.get("manifest.json") != before["manifest.json"]
        stage = "after" if committed else "before" if now == before else "between"
        try:
            found = self.portrait(CodeIndex.load(self.folder, verify="full"))
        except Exception as error:  # noqa: BLE001, whatever it is, it is to be reported
            return stage, repr(error)
        return stage, "old" if found == self.old else "new" if found == self.new else "a mixture"


@pytest.fixture(scope="module")
def scene(tmp_path_factory, tied_codec, draw_codes, portrait, contents, sort_early):
    scene = Scene(tmp_path_factory.mktemp("crash"), tied_codec, draw_codes, portrait, contents)
    yield scene
    scene.children.close()


@pytest.fixture(scope="module")
def kills(scene):
    """Kill many saves, each over a fresh copy of the old index, and write down what they left."""
    found = []

    def record(how, killed):
        if killed:
            found.append(scene.judge(how))
        scene.restore()

    durations = []
    for _ in range(5):
        durations.append(scene.children.duration(scene.folder))
        scene.restore()
    attempts = 0
    while len(found) < TIMED and attempts < 4 * TIMED:  # some kills come too late
        delay = min(durations) * (attempts % TIMED) / TIMED
        record("timed", scene.children.killed_after(scene.folder, delay))
        attempts += 1

    steps = scene.children.steps(scene.folder)
    largest = max(file.stat().st_size for file in scene.folder.iterdir())
    scene.restore()
    for step in steps:
        record("at a step", scene.children.killed_at_step(scene.folder, step))
    for n_bytes in np.linspace(0, largest - 1, MID_WRITE, dtype=int).tolist():
        record("in a write", scene.children.killed_in_a_write(scene.folder, n_bytes))
    return found


def test_a_killed_save_leaves_the_old_index_or_the_new_one_whole(kills):
    expected = {"before": "old", "between": "old", "after": "new"}
    assert [kill for kill in kills if kill.found != expected[kill.stage]] == []


def test_the_kills_were_many_and_fell_everywhere(kills):
    assert len(kills) >= 200
    stages = Counter(kill.stage for kill in kills)
    assert stages["between"] >= 20
    assert stages["before"] >= 1
    assert stages["after"] >= 1
    between = Counter(kill.how for kill in kills if kill.stage == "between")
    assert between["timed"] >= 1
    assert between["at a step"] >= 10
    assert between["in a write"] >= 10


def test_a_later_save_clears_away_what_killed_ones_left(scene, tmp_path):
    scene.restore()
    steps = scene.children.steps(scene.folder)
    scene.restore()
    left = set()
    for step in steps[::4]:  # one after the other, over what the last one left
        scene.children.killed_at_step(scene.folder, step)
        left |= set(scene.contents(scene.folder))
        if scene.judge("at a step").stage == "after":
            break
    scene.changed.save(tmp_path / "clean")
    clean = scene.contents(tmp_path / "clean")
    assert left - set(clean) - set(scene.contents(scene.kept)), "there was nothing to clear away"
    scene.save()
    assert scene.contents(scene.folder) == clean


def test_a_killed_first_save_does_not_bar_the_folder(scene, tmp_path):
    folder = tmp_path / "first"

    def save():
        scene.changed.save(folder, overwrite=True)  # a killed child may have saved it

    halfway = 0
    for step in scene.children.steps(folder)[::3]:
        shutil.rmtree(folder, ignore_errors=True)
        scene.children.killed_at_step(folder, step)
        try:
            assert scene.portrait(CodeIndex.load(folder, verify="full")) == scene.new
        except (FileNotFoundError, FileFormatError):
            halfway += folder.exists() and any(folder.iterdir())
        save()
        assert scene.portrait(CodeIndex.load(folder, verify="full")) == scene.new
    assert halfway >= 3


def test_a_full_disk_leaves_the_old_index_and_the_one_in_memory(scene, works_in_child):
    scene.restore()

    def save_too_much():
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (34_000, 34_000)
        )  # 32,563 bytes of codes fit, 36,896 of ids do not
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with pytest.raises(OSError, match="large"):
            scene.save()
        assert scene.portrait(scene.changed) == scene.new

    assert works_in_child(save_too_much)
    # The codes were written, and deleted when the ids did not fit.
    assert scene.judge("full disk") == Kill("full disk", "before", "old")
    scene.save()
    assert scene.judge("room again").found == "new"


def test_everything_is_on_the_disk_before_the_manifest_names_it(scene, monkeypatch):
    """A kill cannot show what a power cut would lose, so the order of syncs is watched instead."""
    scene.restore()
    log = []  # ("sync", inode), ("rename", new name), ("delete", name)

    def watch(name, note):
        original = getattr(os, name)

        def watched(*arguments, **options):
            log.append(note(*arguments))
            return original(*arguments, **options)

        monkeypatch.setattr(os, name, watched)

    watch("fsync", lambda descriptor: ("sync", os.fstat(descriptor).st_ino))
    for name in ("replace", "rename"):
        watch(name, lambda _, target: ("rename", Path(target).name))
    for name in ("unlink", "remove"):
        watch(name, lambda path: ("delete", Path(path).name))
    scene.save()
    monkeypatch.undo()

    old = {file.name for file in scene.kept.iterdir()} - {"manifest.json"}
    written = {file.stat().st_ino for file in scene.folder.iterdir() if file.name not in old}
    assert len(written) > 1
    commit = log.index(("rename", "manifest.json"))
    before, after = log[:commit], log[commit + 1 :]
    assert {("sync", inode) for inode in written} <= set(before)
    folder_sync = ("sync", scene.folder.stat().st_ino)
    names_are_safe = len(before) - before[::-1].index(folder_sync)
    assert not any(entry[0] == "rename" for entry in before[names_are_safe:])
    assert not any(entry[0] == "delete" and entry[1] in old for entry in before)
    deletions = [i for i, entry in enumerate(after) if entry[0] == "delete"]
    assert deletions, "nothing of the old index was deleted"
    assert folder_sync in after[: deletions[0]], "old files go before the new manifest is on the disk"


# failures that the process survives --------------------------------------------------------------------------------------


def test_old_files_stay_until_the_new_manifest_is_surely_on_the_disk(scene, monkeypatch):
    """The manifest is renamed, but the sync of the folder fails. After a power cut the old manifest may be back."""
    scene.restore()
    index = CodeIndex.load(scene.folder).remove([1]).compact()
    sync, manifest = os.fsync, (scene.folder / "manifest.json").read_bytes()
    old = {file.name for file in scene.folder.iterdir()}

    def fail_after_the_renaming(descriptor):
        renamed = (scene.folder / "manifest.json").read_bytes() != manifest
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) and renamed:
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    for _ in range(2):  # a second failure must not delete them either
        monkeypatch.setattr(os, "fsync", fail_after_the_renaming)
        with pytest.raises(OSError, match="Input/output error"):
            index.save(scene.folder)
        monkeypatch.undo()
        assert old <= {file.name for file in scene.folder.iterdir()}
        CodeIndex.load(scene.folder, verify="full")
        index.remove(index.ids[:1])

    restored = scene.folder.with_name("restored")
    shutil.copytree(scene.folder, restored)
    (restored / "manifest.json").write_bytes(manifest)
    assert scene.portrait(CodeIndex.load(restored, verify="full")) == scene.old
    index.save(scene.folder)  # it knows the folder, although the last save failed
    assert len(list(scene.folder.iterdir())) < len(old)
