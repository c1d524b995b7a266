import pytest
from typer.testing import CliRunner

from supquant_lab.cli import app


@pytest.fixture
def run():
    """Run the command with arguments and return its result."""
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
