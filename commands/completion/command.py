"""`kdump completion`: the script with which a shell completes command lines of kdump."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ..shell.output import Output, verbatim

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_KDUMP_COMPLETE"


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print the script with which a shell completes commands, options, codes, fault names, change ids and topics.

    \b
    Examples:
      kdump completion bash > ~/.local/share/bash-completion/completions/kdump
      kdump completion zsh > ~/.zfunc/_kdump
      kdump completion fish > ~/.config/fish/completions/kdump.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None
    script = completion(ctx.find_root().command, {}, "kdump", _VARIABLE)
    with Output(verbatim) as out:
        out.write(script.source_template % script.source_vars())
    return 0
