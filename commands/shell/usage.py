"""What is wrong with a command line, in one line."""

from __future__ import annotations

from difflib import get_close_matches

import click

from kdump.formats.printable import safe


def usage_text(error: click.UsageError) -> str:
    """Say which command, what is wrong, and what was expected."""
    ctx = error.ctx
    path = ctx.command_path if ctx is not None else "kdump"
    return f"{path}: {safe(_sentence(error))}\n{_hint(path)}"


def _hint(path: str) -> str:
    return f"Help: {path} --help"


def _sentence(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        close = get_close_matches(error.option_name, error.possibilities or (), 1, 0.5)
        known = f" Did you mean '{close[0]}'?" if close else ""
        return f"unknown option '{error.option_name}'.{known}"
    if isinstance(error, click.MissingParameter):
        return error.format_message()
    if isinstance(error, click.BadParameter):
        hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param is not None else "")
        names = hint.split(" / ") if isinstance(hint, str) else hint
        name = max(names, key=len, default="").replace("'", "")
        return f"{name}: {error.message}" if name else error.message
    return _lowered(error.format_message())


def _lowered(text: str) -> str:
    """A text that follows a colon: its first word in small letters, unless it is a name."""
    first = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if first.istitle() and first != "Missing" else text
