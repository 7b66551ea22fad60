"""`kdump help X`: the help of a command, or what a finding's code means."""

from __future__ import annotations

import click

from kdump.findings.catalogue import CATALOGUE

from ..shell.completing import command_names
from ..shell.usage import unknown_command


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND | CODE]", shell_complete=command_names)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Show the help of a command, or explain a finding's code; without arguments, list the commands.

    \b
    Examples:
      kdump help
      kdump help repair
      kdump help KD-LOG-CRC
    """
    root = ctx.find_root()
    if words and words[0].upper().startswith("KD-"):
        explain = _command(root, "explain")
        return int(explain.main([*words], prog_name="kdump explain", standalone_mode=False) or 0)
    found, parent = root.command, root
    for word in words:
        if not isinstance(found, click.Group):
            raise click.UsageError(f"'{found.name}' has no commands of its own.", parent)
        inner = found.get_command(parent, word)
        if inner is None:
            raise click.UsageError(unknown_command(word, found.list_commands(parent), CATALOGUE), parent)
        found, parent = inner, click.Context(inner, parent=parent, info_name=word, **inner.context_settings)
    click.echo(found.get_help(parent))
    return 0


def _command(root: click.Context, name: str) -> click.Command:
    assert isinstance(root.command, click.Group)
    found = root.command.get_command(root, name)
    assert found is not None
    return found
