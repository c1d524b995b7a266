"""Damaged folders: one error that names the file or, where the change is harmless, the right answer."""

import json
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from damaged_index import ABSURD, KINDS, LEFT_OUT, edited, edits

from supquant import CodeIndex
from supquant.errors import FileFormatError

PLACES = 40  # altered in each file, for each way of loading


@pytest.mark.parametrize("kind", KINDS)
def test_altered_bytes_are_refused_or_harmless(copy, check, portrait, kind):
    rng = np.random.default_rng(11)
    right = portrait(CodeIndex.load(copy(kind)))
    for name in sorted(file.name for file in copy(kind).iterdir()):
        file = copy(kind) / name
        content = file.read_bytes()
        refused = 0
        # The ends of a file and its first bytes, where lengths stand, besides places anywhere.
        places = {0, 3, 7, 8, 9, len(content) - 1, *rng.integers(0, len(content), PLACES).tolist()}
        for place in sorted(places):
            changed = bytearray(content)
            changed[place] ^= int(rng.integers(1, 256))
            file.write_bytes(changed)
            refused += check(file.parent, name, right)
        assert refused >= len(places), f"most changes of {name} went unnoticed"


@pytest.mark.parametrize("kind", KINDS)
def test_cut_emptied_lengthened_and_missing_files_are_refused(copy, check, portrait, kind):
    right = portrait(CodeIndex.load(copy(kind)))
    for name in sorted(file.name for file in copy(kind).iterdir()):
        content = (copy(kind) / name).read_bytes()
        for damaged in (
            b"",
            content[:1],
            content[:8],
            content[: len(content) // 2],
            content[:-2],
            content + b"\1",
        ):
            folder = copy(kind)
            (folder / name).write_bytes(damaged)
            assert check(folder, name, right) == 2
        (folder / name).unlink()
        assert check(folder, name, right) == 2
        (folder / name).mkdir()
        assert check(folder, name, right) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_another_index_are_refused(copy, check, portrait, folders, kind):
    right = portrait(CodeIndex.load(copy(kind)))
    strange = [folders[kind, 1], folders["strings" if kind == "grouped" else "grouped", 0]]
    refused = 0
    for name in sorted(file.name for file in copy(kind).iterdir()):
        for other in sorted(file for folder in strange for file in folder.iterdir()):
            content = other.read_bytes()
            folder = copy(kind)
            if name == "manifest.json" == other.name or content == (folder / name).read_bytes():
                continue  # whole manifests of other indexes have a test of their own
            (folder / name).write_bytes(content)
            assert check(folder, name, right) == 2
            refused += 1
    assert refused > 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_of_another_index_is_refused(copy, check, portrait, folders, kind):
    folder = copy(kind)
    shutil.copy(folders[kind, 1] / "manifest.json", folder / "manifest.json")
    assert check(folder, "", portrait(CodeIndex.load(folders[kind, 1]))) == 2


@pytest.mark.parametrize("kind", ["grouped", "strings"])
def test_an_edited_manifest_is_refused(copy, check, portrait, kind):
    folder = copy(kind)
    right = portrait(CodeIndex.load(folder))
    manifest = folder / "manifest.json"
    whole = json.loads(manifest.read_bytes())
    rng = np.random.default_rng(12)
    paths = list(edits(whole))
    for path in paths:
        values = [LEFT_OUT, *(ABSURD[i] for i in rng.permutation(len(ABSURD))[:3])]
        for value in values:
            if not path and value is LEFT_OUT:
                continue
            manifest.write_text(json.dumps(edited(whole, path, value)))
            check(folder, "manifest.json", right)
    for text in ("[" * 100_000, "NaN", '"', "{" + '"a":' * 10_000, "\ufeff{}", "null"):
        manifest.write_text(text)
        assert check(folder, "manifest.json", right) == 2


def test_a_newer_manifest_is_refused_with_its_version(copy):
    folder = copy("plain")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert manifest["version"] == 1
    manifest["version"] = 5
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FileFormatError, match=r"manifest\.json.*version '?5"):
        CodeIndex.load(folder)


SCRIPT = """
import json, shutil, sys
from pathlib import Path
import numpy as np
from supquant import CodeIndex
from supquant.errors import FileFormatError

home, work = Path(sys.argv[1]), Path(sys.argv[2])
rng = np.random.default_rng(13)
refused = harmless = 0
for saved in sorted(home.iterdir()):
    whole = CodeIndex.load(saved, verify="full")
    Q = rng.normal(size=(3, 2)).astype(np.float32)
    right = [array.tolist() for array in whole.search(Q, 20)]
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(saved, work)
    for file in sorted(saved.iterdir()):
        content = file.read_bytes()
        for _ in range(25):
            damaged = bytearray(content)
            for place in rng.integers(0, len(content), rng.integers(1, 200)):
                damaged[place] = rng.integers(0, 256)
            if rng.random() < 0.3:
                damaged = damaged[: rng.integers(0, len(damaged))]
            (work / file.name).unlink()  # not overwritten: the last index may have mapped it
            (work / file.name).write_bytes(damaged)
            try:
                index = CodeIndex.load(work)
                found = [array.tolist() for array in index.search(Q, 20)]
                index.codes(index.ids); index.reconstruct(index.ids)
                index.remove(index.ids[:1]).compact()
            except FileFormatError:
                refused += 1
            else:
                assert found == right, (file, "gave a wrong answer")
                harmless += 1
        shutil.copy(file, work)
print(json.dumps([refused, harmless]))
"""


def test_no_damage_brings_the_process_down(folders, tmp_path):
    home = next(iter(folders.values())).parent
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-W",
            "error",
            "-c",
            textwrap.dedent(SCRIPT),
            home,
            tmp_path / "work",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    refused, _ = json.loads(done.stdout)
    assert refused > 500
