import pytest

from supquant_lab.bench.fingerprints import definition_fingerprint, fingerprint


def test_a_fingerprint_changes_with_statements_alone(tmp_path):
    (tmp_path / "room").mkdir()
    file, extension = tmp_path / "room" / "one.py", tmp_path / "room" / "_native.so"
    seen = set()

    def print_of(text, compiled):
        file.write_text(text)
        extension.write_bytes(compiled)
        seen.add(found := fingerprint(tmp_path, ["room"]))
        return found

    first = print_of('"""What it is."""\n\ndef f():\n    """Return 1."""\n    return 1  # one\n', b"a")
    assert print_of("def f():\n    return 1\n", b"b") == first
    print_of("def f():\n    return 2\n", b"b")
    assert len(seen) == 2


def test_sources_that_only_run_on_a_gpu_leave_a_fingerprint_as_it_is(tmp_path):
    (tmp_path / "kernels" / "cuda").mkdir(parents=True)
    (tmp_path / "kernels" / "scan.py").write_text("a = 1\n")
    before = fingerprint(tmp_path, ["kernels"])
    (tmp_path / "kernels" / "cuda" / "scan.py").write_text("a = 2\n")
    assert fingerprint(tmp_path, ["kernels"]) == before
    (tmp_path / "kernels" / "cuda.py").write_text("a = 2\n")
    assert fingerprint(tmp_path, ["kernels"]) != before


@pytest.fixture
def written(tmp_path):
    """Write modules of a package, and return the fingerprint of its class First."""
    sources = {
        "maps": "STEP = 1\n\n\ndef used():\n    return STEP\n\n\ndef unused():\n    return 2\n",
        "methods": "from room.maps import unused, used\nfrom other import far\n\n\nclass Base:\n    name = far\n\n\n"
        "class First(Base):\n    def map(self):\n        return used()\n\n\nclass Second:\n    map = unused\n",
    }

    def write(module="", old="", new=""):
        (tmp_path / "room").mkdir(exist_ok=True)
        for name, text in sources.items():
            assert name != module or old in text
            changed = text.replace(old, new) if name == module else text
            (tmp_path / "room" / f"{name}.py").write_text(changed)
        return definition_fingerprint(tmp_path, "room.methods", "First", "room")

    return write


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("methods", "map = unused", "map = used"),
        ("methods", "class Second", "class Third:\n    pass\n\n\nclass Second"),
        ("methods", "class Base:\n", 'class Base:\n    # Says nothing.\n    """Text."""\n\n'),
        ("maps", "return 2", "return 3"),
    ],
)
def test_what_a_class_does_not_name_leaves_its_fingerprint_as_it_is(written, module, old, new):
    assert written(module, old, new) == written()


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("methods", "return used()", "return used() + 1"),
        ("methods", "name = far", "name = 2"),
        ("maps", "return STEP", "return -STEP"),
        ("maps", "STEP = 1", "STEP = 2"),
    ],
)
def test_what_a_class_names_changes_its_fingerprint(written, module, old, new):
    assert written(module, old, new) != written()


def test_a_class_that_is_not_there_has_no_fingerprint(written, tmp_path):
    written()
    with pytest.raises(LookupError, match=r"room\.methods defines no Ours"):
        definition_fingerprint(tmp_path, "room.methods", "Ours", "room")
