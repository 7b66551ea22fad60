"""What is wrong with a command line, in one line, and which word is probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import click

from kdump.formats.printable import safe

_NO_NUMBER = r"(?s)(.+) is not (?:a valid (?:integer|float)|in the range)\b.*\.$"
_NO_CHOICE = r"(?s)'(.*)' is not (?:one of )?'.*\.$"

_OTHER_NAMES = {
    "cat": "dump",
    "check": "verify",
    "fix": "repair",
    "fsck": "verify",
    "list": "ls",
    "recover": "startup",
    "show": "dump",
    "status": "doctor",
}
"""What other tools call commands."""


def usage_text(error: click.UsageError) -> str:
    """Say which command, what is wrong, and what was expected."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()  # the help
    ctx = error.ctx
    path = ctx.command_path if ctx is not None else "kdump"
    return f"{path}: {safe(_sentence(error))}\nHelp: {path} --help"


def _sentence(error: click.UsageError) -> str:
    from kdump.formats.close_names import closest

    if isinstance(error, click.NoSuchOption):
        close = closest(error.option_name, error.possibilities or (), 0.7)
        known = f" Did you mean '{close}'?" if close else ""
        return f"unknown option '{error.option_name}'.{known}"
    if isinstance(error, click.MissingParameter):
        return " ".join(error.format_message().split())
    if isinstance(error, click.BadParameter):
        hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param is not None else "")
        names = hint.split(" / ") if isinstance(hint, str) else hint
        name = max(names, key=len, default="").replace("'", "")
        said = _plain(error.message, error.param)
        return f"{name}: {said}" if name else said
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        return f"{error.option_name} needs a value"
    return _lowered(error.format_message()).replace("got unexpected extra argument", "unexpected argument")


def _plain(text: str, param: click.Parameter | None) -> str:
    """Return what is wrong with a value, said as kdump says it where click has a sentence of its own."""
    if param is not None and (found := re.match(_NO_NUMBER, text)):
        return f"{found[1]}: expected {_numbers(param.type)}"
    if param is not None and isinstance(param.type, click.Choice) and (found := re.match(_NO_CHOICE, text)):
        return not_one_of(found[1], [str(choice) for choice in param.type.choices])
    return text


def not_one_of(word: str, choices: Sequence[str]) -> str:
    """Return what is wrong with a word that is none of the choices, with the one that is probably meant."""
    return f"'{word}' is not {'one of ' if len(choices) > 1 else ''}{', '.join(choices)}{meant(word, choices)}"


def _numbers(kind: object) -> str:
    """Return the numbers that a type takes."""
    number = "a number" if isinstance(kind, click.types.FloatParamType) else "a whole number"
    low = getattr(kind, "min", None)
    high = getattr(kind, "max", None)
    if low is None:
        return number if high is None else f"{number} up to {high}"
    return f"{number} from {low} {'on' if high is None else f'to {high}'}"


def _lowered(text: str) -> str:
    """Return a text that follows a colon: its first word in small letters, unless it is a name."""
    first = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if first.istitle() and first != "Missing" else text


def meant(word: str, known: Collection[str]) -> str:
    """Return what follows a sentence about a name that is not `known`: the one that is probably meant, if one is."""
    from kdump.formats.close_names import closest

    close = closest(word, known)
    return f". Did you mean '{safe(close)}'?" if close else ""


def unknown_command(word: str, commands: Collection[str], codes: Collection[str] = ()) -> str:
    """Return what is said of a word that is none of the `commands`, nor of the findings' `codes`; safe to print."""
    from kdump.formats.close_names import closest

    said = f"unknown command '{safe(word)}'."
    if word in _OTHER_NAMES and _OTHER_NAMES[word] in commands:
        return f"{said} Its name is '{_OTHER_NAMES[word]}': kdump {_OTHER_NAMES[word]} --help"
    close = closest(word, commands) or closest(word.upper(), codes, 0.7)
    return f"{said} Did you mean '{close}'?" if close else f"{said} 'kdump help' lists the commands."
