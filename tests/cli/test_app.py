import sys

import pytest

from supquant.cli.commands import OWN_COMMANDS, CommandSource, LazyCommands

APP = sys.modules["supquant.cli.commands"]  # in the package `app` is the command itself


def test_demo_writes_its_page(run, tmp_path):
    result = run("demo", "-o", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "product quantization" in result.output
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("name", OWN_COMMANDS)
def test_every_listed_command_exists(run, name):
    assert f" {name} " in run("--help").output
    result = run(name, "--help")
    assert result.exit_code == 0, result.output
    assert f"{name} [OPTIONS]" in result.output.replace("\n", " ")


def test_other_packages_may_add_commands(run, monkeypatch):
    monkeypatch.setattr(LazyCommands, "plugins", None)
    assert " info " in run("--help").output
    assert " foreign " not in run("--help").output
    monkeypatch.setattr(LazyCommands, "plugins", "supquant.commands")
    foreign = {"foreign": CommandSource("supquant.cli.demo", "Do more.")}
    monkeypatch.setattr(APP, "_plugged", {"supquant.commands": foreign}.get)
    assert "Do more." in run("--help").output


@pytest.mark.parametrize("name", ["serch", "paper"])
def test_an_unknown_command_is_named(run, monkeypatch, name):
    monkeypatch.setattr(LazyCommands, "plugins", None)
    result = run(name)
    assert result.exit_code == 2
    assert name in result.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--frob"], "No such option: --frob; 'supquant --help' lists what there is"),
        (["fit"], "Missing argument 'items'; 'supquant fit --help' lists what there is"),
        (["fit", "x.npy", "--bits", "few"], "Invalid value for '--bits': "),
        (["fit", "x.npy", "--labels"], "Option '--labels' requires an argument"),
        (["info", "a", "b"], "Got unexpected extra argument"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(run, arguments, error):
    result = run(*arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"Error: {error}")


def test_no_arguments_print_the_help(run):
    assert run().output.strip() == run("--help").output.strip()


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

    monkeypatch.setattr(APP, "import_module", fail)
    result = run("info")
    assert result.exit_code == 2
    expected = f"Error: this command needs the package {module}, which is not installed{hint}"
    assert result.stderr.strip() == expected
