"""Commands in this process."""

from typer.testing import CliRunner

from gradwalk import cli


def run(*arguments: str) -> str:
    """Return what a command prints; it must succeed."""
    result = CliRunner().invoke(cli.app(), list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout
