import pytest
from typer.testing import CliRunner

from supquant.cli import app
from supquant_lab.cli import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_lab_adds_its_commands_to_supquant(name):
    assert f" {name} " in CliRunner().invoke(app, ["--help"]).output
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"{name} [OPTIONS]" in result.output.replace("\n", " ")
