"""`multicause completion`: what makes a shell complete commands, options and names."""

import click

EXAMPLES = """\b
Examples:
  multicause completion bash >> ~/.bashrc
  multicause completion zsh >> ~/.zshrc
  multicause completion fish > ~/.config/fish/completions/multicause.fish
"""


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None  # the shells that are offered are those that Click knows
    root = ctx.find_root()
    click.echo(complete(root.command, {}, "multicause", "_MULTICAUSE_COMPLETE").source())
