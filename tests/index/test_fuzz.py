"""Damaged folders: one error that names the file or, where the change is harmless, the right answer."""

import json
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import xxhash

from supquant import CodeIndex, storage
from supquant.errors import FileFormatError

KINDS = ("plain", "grouped", "strings", "binary")
PLACES = 40  # altered in each file, for each way of loading


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tied_codec, binary_codec, draw_codes, make_ids):
    """Return two saved indexes of the same shape and other content of every kind: folders by (kind, number)."""
    home = tmp_path_factory.mktemp("fuzz")
    saved = {}
    for kind in KINDS:
        codec = binary_codec if kind == "binary" else tied_codec
        ids = {"plain": "automatic", "binary": "automatic", "grouped": "int", "strings": "string"}[kind]
        for number in (0, 1):
            rng = np.random.default_rng(number)
            index = CodeIndex(codec)
            for start, stop, distinct in ((0, 150, None), (150, 170, 2 if kind == "grouped" else None)):
                codes = draw_codes(codec, rng, stop - start, 3 if kind == "grouped" else distinct)
                index.add_codes(codes, ids=make_ids(ids, range(1000 * number + start, 1000 * number + stop)))
            index.remove(index.ids[number::7])
            saved[kind, number] = home / f"{kind}-{number}"
            index.save(saved[kind, number])
    return saved


@pytest.fixture
def copy(folders, tmp_path):
    """Return a function that copies a saved index, over the last copy."""

    def make(kind, number=0):
        target = tmp_path / "copy"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folders[kind, number], target)
        return target

    return make


def attempt(action, *arguments, **options):
    """What a call gives, or the text of its `FileFormatError`."""
    try:
        return action(*arguments, **options), None
    except FileFormatError as error:
        return None, str(error)


@pytest.fixture
def check(portrait):
    """Return a function that loads a damaged folder both ways and demands the right answer or one error."""

    def check_folder(folder, altered, right):
        """Errors must name the file `altered`; gives the number of refusals, of two."""
        refused = 0
        for verify in ("full", "lazy"):
            index, refusal = attempt(CodeIndex.load, folder, verify=verify)
            if index is not None:
                answer, refusal = attempt(portrait, index)
                if refusal is None:
                    assert answer == right, f"a wrong answer from an altered {altered}, verify={verify!r}"
                else:
                    assert verify == "lazy", f"loaded as whole, and then: {refusal}"
                    assert attempt(portrait, index)[1] is not None, "refused once, accepted later"
            if refusal is not None:
                assert altered in refusal, f"{refusal!r} does not name {altered}"
                refused += 1
        return refused

    return check_folder


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


ABSURD = [
    None,
    True,
    -1,
    0,
    1,
    10**30,
    1.5,
    "",
    "x",
    "../plain-1/manifest.json",
    "/etc/passwd",
    "\0",
    [],
    {},
    [[]],
]


def edits(value, path=()):
    """Places in a JSON value, innermost and others."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from edits(part, (*path, key))


def edited(value, path, new):
    """A copy of a JSON value with one part replaced, or left out where `new` is a special mark."""
    if not path:
        return new
    copied = value.copy()
    if len(path) == 1 and new is LEFT_OUT:
        copied.pop(path[0])
    else:
        copied[path[0]] = edited(value[path[0]], path[1:], new)
    return copied


LEFT_OUT = object()


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
    manifest["version"] = 3
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FileFormatError, match=r"manifest\.json.*version '?3"):
        CodeIndex.load(folder)


# files whose digests are right and whose content makes no sense ------------------------------------------------------------


def sign(manifest):
    """Write a manifest with the digest that makes it look like one of ours."""
    if not isinstance(manifest, dict):
        return json.dumps(manifest)
    unsigned = {key: value for key, value in manifest.items() if key != "digest"}
    digest = xxhash.xxh3_128_hexdigest(json.dumps(unsigned).encode())
    return json.dumps({**unsigned, "digest": digest}, indent=2) + "\n"


def test_the_tests_can_sign_manifests(copy):
    folder = copy("plain")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(sign(manifest | {"next_number": 12345}))
    index = CodeIndex.load(folder)
    assert index.add_codes(np.zeros((1, 3), np.uint8)).ids[-1] == 12345


@pytest.mark.parametrize("kind", ["grouped", "strings"])
def test_a_signed_manifest_of_nonsense_is_refused_or_answers(copy, portrait, kind):
    folder = copy(kind)
    manifest = folder / "manifest.json"
    whole = json.loads(manifest.read_bytes())
    refused = 0
    paths = [path for path in edits(whole) if path != ("digest",)]
    for path in paths:
        for value in (LEFT_OUT, *ABSURD) if path else ABSURD:
            manifest.write_text(sign(edited(whole, path, value)))
            index, refusal = attempt(CodeIndex.load, folder, verify="full")
            if index is not None:
                _, refusal = attempt(portrait, index)
            refused += refusal is not None
    assert refused > 0.8 * len(paths) * len(ABSURD)


@pytest.mark.parametrize("kind", KINDS)
def test_a_segment_listed_twice_is_refused(copy, kind):
    folder = copy(kind)
    whole = json.loads((folder / "manifest.json").read_bytes())
    for entry in whole["segments"]:
        for times in (1, 2, 100):
            segments = whole["segments"] + [entry] * times
            (folder / "manifest.json").write_text(sign(whole | {"segments": segments}))
            with pytest.raises(FileFormatError, match=r"manifest\.json: two segments have the same ids"):
                CodeIndex.load(folder)


def test_segments_with_common_numbers_are_refused(copy):
    folder = copy("plain")
    whole = json.loads((folder / "manifest.json").read_bytes())
    first, last = whole["segments"][0], whole["segments"][-1]
    alive = {"live": None, "live_rows": first["rows"], "ids": None, "first_id": 0}
    overlapping = [first | alive, last | alive | {"first_id": 7, "live_rows": last["rows"]}]
    (folder / "manifest.json").write_text(sign(whole | {"segments": overlapping}))
    with pytest.raises(FileFormatError, match=r"manifest\.json: two segments have ids in common"):
        CodeIndex.load(folder)


@pytest.mark.parametrize("number", [0, 1, 149, 2**62 + 1, 2**63, 2**63 - 1, -1, True, 170.0])
def test_a_next_number_that_was_given_or_overflows_is_refused(copy, number):
    folder = copy("plain")
    whole = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(sign(whole | {"next_number": number}))
    with pytest.raises(FileFormatError, match=r"'next_number' is|ids must be from 0"):
        CodeIndex.load(folder, verify="full")


@pytest.mark.parametrize("kind", ["grouped", "strings"])
def test_ids_of_users_leave_no_next_number(copy, kind):
    folder = copy(kind)
    whole = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(sign(whole | {"next_number": 5}))
    with pytest.raises(FileFormatError, match="'next_number' is 5"):
        CodeIndex.load(folder)


def test_a_manifest_of_long_values_is_refused_in_few_words(copy):
    folder = copy("plain")
    whole = json.loads((folder / "manifest.json").read_bytes())
    for place in [path for path in edits(whole) if path and path[0] != "digest"]:
        (folder / "manifest.json").write_text(sign(edited(whole, place, "x" * 100_000)))
        with pytest.raises(FileFormatError) as raised:
            CodeIndex.load(folder)
        assert len(str(raised.value)) < 1000


def test_a_manifest_cannot_lead_out_of_its_folder(copy, folders, tmp_path):
    folder = copy("plain")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    name = manifest["segments"][0]["codes"]
    shutil.copy(folder / name, tmp_path / name)
    for path in (f"../{name}", str(tmp_path / name), f"x/../../{name}"):
        (folder / "manifest.json").write_text(sign(edited(manifest, ("segments", 0, "codes"), path)))
        with pytest.raises(FileFormatError, match=r"manifest\.json"):
            CodeIndex.load(folder)


def forge(folder, field, arrays):
    """Put other arrays into the first segment's file of a kind, with all digests right; return the file's name."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    entry = manifest["segments"][0]
    kind = entry[field].split("-")[0]
    found, settings = storage.load_arrays(folder / entry[field], kind)
    packed = storage.pack_arrays(kind, {**found, **arrays(found)}, settings)
    entry[field] = f"{kind}-{packed.digest[:16]}.safetensors"
    packed.write(folder / entry[field])
    (folder / "manifest.json").write_text(sign(manifest))
    return entry[field]


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


FORGERIES = {
    "an honest copy": ("plain", "codes", lambda arrays: {}),
    "a codeword too large": (
        "plain",
        "codes",
        lambda arrays: {"blocks": changed(arrays["blocks"], (0, 0, 5), 16)},
    ),
    "255": ("plain", "codes", lambda arrays: {"blocks": changed(arrays["blocks"], (-1, -1, 0), 255)}),
    "of other codebooks": ("plain", "codes", lambda arrays: {"blocks": arrays["blocks"][:, :2]}),
    "too few blocks": ("plain", "codes", lambda arrays: {"blocks": arrays["blocks"][:-1]}),
    "no blocks": ("plain", "codes", lambda arrays: {"blocks": arrays["blocks"][:0]}),
    "wider codes": ("plain", "codes", lambda arrays: {"blocks": arrays["blocks"].astype(np.uint16)}),
    "a group's codeword": (
        "grouped",
        "codes",
        lambda arrays: {"blocks": changed(arrays["blocks"], (0, 2, 1), 99)},
    ),
    "a member too large": (
        "grouped",
        "codes",
        lambda arrays: {"members": changed(arrays["members"], 3, 2**32 - 1)},
    ),
    "one past the last": (
        "grouped",
        "codes",
        lambda arrays: {"members": changed(arrays["members"], 3, len(arrays["members"]))},
    ),
    "a member named twice": (
        "grouped",
        "codes",
        lambda arrays: {"members": changed(arrays["members"], 3, arrays["members"][4])},
    ),
    "starts too large": (
        "grouped",
        "codes",
        lambda arrays: {"starts": changed(arrays["starts"], -1, 2**32 - 1)},
    ),
    "starts too small": ("grouped", "codes", lambda arrays: {"starts": changed(arrays["starts"], -1, 3)}),
    "starts late": ("grouped", "codes", lambda arrays: {"starts": changed(arrays["starts"], 0, 1)}),
    "descending starts": ("grouped", "codes", lambda arrays: {"starts": changed(arrays["starts"], 1, 2**31)}),
    "no starts": ("grouped", "codes", lambda arrays: {"starts": arrays["starts"][:0]}),
    "short starts": ("grouped", "codes", lambda arrays: {"starts": arrays["starts"][:-1]}),
    "more groups than blocks": (
        "grouped",
        "codes",
        lambda arrays: {"starts": np.append(np.zeros(900, np.uint32), arrays["starts"])},
    ),
    "short members": ("grouped", "codes", lambda arrays: {"members": arrays["members"][:-1]}),
    "signed members": ("grouped", "codes", lambda arrays: {"members": arrays["members"].astype(np.int32)}),
    "an order too large": (
        "grouped",
        "ids",
        lambda arrays: {"order": changed(arrays["order"], 0, 2**32 - 1)},
    ),
    "an order that names a row twice": (
        "grouped",
        "ids",
        lambda arrays: {"order": changed(arrays["order"], 0, arrays["order"][1])},
    ),
    "an order that does not sort": ("grouped", "ids", lambda arrays: {"order": arrays["order"][::-1]}),
    "hashes that descend": ("strings", "ids", lambda arrays: {"hashes": arrays["hashes"][::-1]}),
    "a string's order that names a row twice": (
        "strings",
        "ids",
        lambda arrays: {"order": changed(arrays["order"], 0, arrays["order"][1])},
    ),
    "an id that comes twice": (
        "grouped",
        "ids",
        lambda arrays: {"values": np.full_like(arrays["values"], 7), "order": np.sort(arrays["order"])},
    ),
    "a short order": ("grouped", "ids", lambda arrays: {"order": arrays["order"][:-1]}),
    "ids as a table": ("grouped", "ids", lambda arrays: {"values": arrays["values"].reshape(-1, 1)}),
    "a string's order": (
        "strings",
        "ids",
        lambda arrays: {"order": changed(arrays["order"], -1, len(arrays["order"]))},
    ),
    "an offset too large": (
        "strings",
        "ids",
        lambda arrays: {"offsets": changed(arrays["offsets"], 7, 2**63)},
    ),
    "offsets past the end": ("strings", "ids", lambda arrays: {"offsets": arrays["offsets"] + np.uint64(1)}),
    "a short blob": ("strings", "ids", lambda arrays: {"blob": arrays["blob"][:-1]}),
    "short offsets": ("strings", "ids", lambda arrays: {"offsets": arrays["offsets"][:-1]}),
    "bytes that are no text": (
        "strings",
        "ids",
        lambda arrays: {"blob": changed(arrays["blob"], slice(None), 0xFF)},
    ),
    "too many live rows": ("plain", "live", lambda arrays: {"words": ~(arrays["words"] * np.uint64(0))}),
    "no live rows": ("plain", "live", lambda arrays: {"words": arrays["words"] * np.uint64(0)}),
    "few live words": ("plain", "live", lambda arrays: {"words": arrays["words"][:-1]}),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_file_is_refused(copy, check, portrait, forgery):
    kind, field, arrays = FORGERIES[forgery]
    folder = copy(kind)
    right = portrait(CodeIndex.load(folder))
    name = forge(folder, field, arrays)
    assert check(folder, name, right) == (0 if forgery == "an honest copy" else 2)


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
    for file in sorted(saved.iterdir()):
        content = file.read_bytes()
        for _ in range(25):
            damaged = bytearray(content)
            for place in rng.integers(0, len(content), rng.integers(1, 200)):
                damaged[place] = rng.integers(0, 256)
            if rng.random() < 0.3:
                damaged = damaged[: rng.integers(0, len(damaged))]
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(saved, work)
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
