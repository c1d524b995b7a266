"""Files whose digests are right and whose content makes no sense."""

import json
import shutil

import numpy as np
import pytest
import xxhash
from damaged_index import ABSURD, KINDS, LEFT_OUT, attempt, changed, edited, edits

from supquant import CodeIndex, storage
from supquant.errors import FileFormatError


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
    "a sorted member too large": (
        "sorted",
        "codes",
        lambda arrays: {"members": changed(arrays["members"], 3, len(arrays["members"]))},
    ),
    "a sorted member named twice": (
        "sorted",
        "codes",
        lambda arrays: {"members": changed(arrays["members"], 3, arrays["members"][4])},
    ),
    "no leading codebook": ("sorted", "codes", lambda arrays: {"lead": arrays["lead"][:0]}),
    "a leading codebook too large": (
        "sorted",
        "codes",
        lambda arrays: {"lead": changed(arrays["lead"], 0, 3)},
    ),
    "a leading codebook named twice": (
        "sorted",
        "codes",
        lambda arrays: {"lead": changed(arrays["lead"], 0, arrays["lead"][1])},
    ),
    "too many leading codebooks": (
        "sorted",
        "codes",
        lambda arrays: {"lead": np.arange(200, dtype=np.uint8)},
    ),
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
        lambda arrays: {"offsets": changed(arrays["offsets"], 7, 2**32 - 1)},
    ),
    "offsets past the end": ("strings", "ids", lambda arrays: {"offsets": arrays["offsets"] + np.uint32(1)}),
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
