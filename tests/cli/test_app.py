import pytest

from supquant.cli.app import LAB_COMMANDS, OWN_COMMANDS, LazyCommands
from supquant_lab.cli import COMMANDS


def test_demo_writes_its_page(run, tmp_path):
    result = run("demo", "-o", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "product quantization" in result.output
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_help_lists_the_commands_of_the_library_and_of_the_experiments(run):
    output = run("--help").output
    for command in (*OWN_COMMANDS, *LAB_COMMANDS):
        assert command in output


@pytest.mark.parametrize("name", [*OWN_COMMANDS, *LAB_COMMANDS])
def test_the_list_names_a_command_that_is_there(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0, result.output
    assert f"{name} [OPTIONS]" in result.output.replace("\n", " ")


def test_the_experiments_add_the_commands_that_the_library_expects():
    assert tuple(COMMANDS) == LAB_COMMANDS


def test_without_the_experiments_their_commands_say_how_to_install_them(run, monkeypatch):
    monkeypatch.setattr(LazyCommands, "plugins", None)
    assert "paper" not in run("--help").output
    result = run("paper", "--plan")
    assert result.exit_code == 2
    assert "pip install 'supquant[lab]'" in result.stderr


def test_a_command_that_is_not_there_is_named(run):
    result = run("serch")
    assert result.exit_code == 2
    assert "serch" in result.stderr
