import sys

import pytest

from supquant.cli.app import OWN_COMMANDS, LazyCommands
from supquant_lab.cli import COMMANDS


def test_demo_writes_its_page(run, tmp_path):
    result = run("demo", "-o", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "product quantization" in result.output
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_help_lists_the_commands_of_the_library_and_of_installed_packages(run):
    output = run("--help").output
    for command in (*OWN_COMMANDS, *COMMANDS):
        assert f" {command} " in output


@pytest.mark.parametrize("name", [*OWN_COMMANDS, *COMMANDS])
def test_every_listed_command_exists(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0, result.output
    assert f"{name} [OPTIONS]" in result.output.replace("\n", " ")


def test_without_other_packages_help_lists_the_commands_of_the_library_alone(run, monkeypatch):
    monkeypatch.setattr(LazyCommands, "plugins", None)
    output = run("--help").output
    assert " search " in output
    assert not [name for name in COMMANDS if f" {name} " in output]


@pytest.mark.parametrize("name", ["serch", "paper"])
def test_an_unknown_command_is_named(run, monkeypatch, name):
    monkeypatch.setattr(LazyCommands, "plugins", None)
    result = run(name)
    assert result.exit_code == 2
    assert name in result.stderr


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("uvicorn", "; pip install 'supquant[serve]' installs what it needs"),
        ("prometheus_client.core", "; pip install 'supquant[serve]' installs what it needs"),
        ("foreign", ""),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(run, monkeypatch, module, hint):
    def fail(name):
        raise ModuleNotFoundError(name=module)

    monkeypatch.setattr(sys.modules["supquant.cli.app"], "import_module", fail)
    result = run("info")
    assert result.exit_code == 2
    expected = f"Error: this command needs the package {module}, which is not installed{hint}"
    assert result.stderr.strip() == expected
