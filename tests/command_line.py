"""The command line as the tests call it."""

from click.testing import CliRunner

from multicause.cli import main


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def succeed(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments):
    """The one line that answers a mistake."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    return line
