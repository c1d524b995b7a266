"""What operating systems do differently: one module, and a twin of the same names for Windows."""

import ast
import importlib.util
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import supquant
from supquant import system

PACKAGE = Path(supquant.__file__).parent
TWINS = ("posix", "windows")

ASKS = (
    "import fcntl",
    "import msvcrt",
    "import resource",
    "sys.platform",
    "os.name",
    "platform.system",
    "hasattr(os",
)
"""What only a module that asks which system it runs on has to say."""

ONLY_POSIX = (
    "os.fork",
    "os.getuid",
    "os.kill",
    "os.readv",
    "os.register_at_fork",
    "os.sysconf",
    "os.uname",
    "pass_fds",
)
"""What Python does not have on Windows."""


def public_functions(name):
    """Return the parameters of the functions of a module, without importing it."""
    tree = ast.parse((PACKAGE / "system" / f"{name}.py").read_text(encoding="utf-8"))
    functions = [
        each for each in tree.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
    ]
    return {
        each.name: [argument.arg for argument in each.args.args + each.args.kwonlyargs] for each in functions
    }


def test_the_twins_have_the_same_functions_of_the_same_parameters():
    posix, windows = map(public_functions, TWINS)
    assert windows.pop("at_fork") == [
        "before",
        "after_in_parent",
        "after_in_child",
    ]  # here a function of `os`
    assert posix == windows
    assert {*posix, "READ_FLAGS", "Pipe", "at_fork", "open_descriptor"} == set(system.__all__)


def test_no_other_module_depends_on_the_operating_system():
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "system":
            text = path.read_text(encoding="utf-8")
            assert not [each for each in (*ASKS, *ONLY_POSIX) if each in text], path


@pytest.fixture(params=TWINS)
def twin(request, monkeypatch):
    """Each of the twins. What the one for Windows needs of Windows is played here."""
    if request.param == "posix":
        return pytest.importorskip("supquant.system.posix")
    if sys.platform != "win32":
        fcntl = pytest.importorskip("fcntl")

        def locking(descriptor, mode, n_bytes):
            assert (mode, n_bytes) == ("not blocking", 1)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

        monkeypatch.setattr(sys, "platform", "win32")
        monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK="not blocking"))
        monkeypatch.setattr("multiprocessing.connection.PipeConnection", None, raising=False)
        monkeypatch.setattr(os, "O_BINARY", 0, raising=False)
        monkeypatch.setattr(os, "O_NOINHERIT", os.O_CLOEXEC, raising=False)
    spec = importlib.util.spec_from_file_location("windows_twin", PACKAGE / "system" / "windows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_file_takes_the_place_of_another_one(twin, tmp_path):
    (tmp_path / "kept").write_text("old")
    with (tmp_path / "new").open("xb") as file:
        file.write(b"new")
        file.flush()
        twin.sync_file(file)
        twin.rename_open(file, tmp_path / "kept")
    twin.sync_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "new"


def test_an_open_file_can_be_deleted(twin, tmp_path):
    with (tmp_path / "file").open("ab") as file:
        assert twin.try_lock(file)
        twin.delete_open(file)
        assert not (tmp_path / "file").exists()
    twin.delete(tmp_path / "file")  # which is gone
    with pytest.raises(FileNotFoundError):
        twin.delete_unused(tmp_path / "file")


def test_files_are_opened_to_read(twin, tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    with system.open_descriptor(tmp_path / "file", twin.READ_FLAGS) as descriptor:
        assert os.read(descriptor, 100) == b"content"
        assert not os.get_inheritable(descriptor)


def test_a_spooled_file_can_be_written_and_read_by_its_name(twin, monkeypatch):
    at_exit = []
    monkeypatch.setattr("atexit.register", lambda *call: at_exit.append(call))
    with twin.spool_file() as name:
        Path(name).write_bytes(b"content")
        with Path(name).open("rb") as file:
            assert file.read() == b"content"
    for function, *arguments in at_exit:
        function(*arguments)
    assert not Path(name).exists()


@pytest.mark.parametrize("twin", ["windows"], indirect=True)
def test_a_renaming_waits_until_the_file_that_it_replaces_is_closed(twin, tmp_path, monkeypatch):
    refusals, replace = [PermissionError("in use")] * 3, Path.replace

    def refuse(path, target):
        if refusals:
            raise refusals.pop()
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with (tmp_path / "new").open("xb") as file:
        twin.rename_open(file, tmp_path / "kept")
        assert file.closed
    assert (tmp_path / "kept").exists()
    refusals[:] = [PermissionError("in use")] * 1000
    monkeypatch.setattr(twin, "RENAME_SECONDS", 0.03)
    with (tmp_path / "new").open("xb") as file, pytest.raises(PermissionError):
        twin.rename_open(file, tmp_path / "kept")


@pytest.mark.parametrize("twin", ["windows"], indirect=True)
def test_a_mapped_file_stays_for_a_later_call(twin, tmp_path, monkeypatch):
    def refuse(path, missing_ok=False):
        raise PermissionError("in use")

    (tmp_path / "file").touch()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        twin.delete(tmp_path / "file")
    assert (tmp_path / "file").exists()
    twin.delete(tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_the_machine_has_memory_and_cores():
    assert 0 < system.free_bytes() <= system.memory_bytes()
    assert system.count_cores() >= 1
