"""What is said of a word that is no command: the one that is meant, or a finding's code."""

from __future__ import annotations

from collections.abc import Collection

from kdump.formats.close_names import closest
from kdump.formats.printable import safe

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


def meant(word: str, known: Collection[str]) -> str:
    """Return what follows a sentence about a name that is not `known`: the one that is probably meant, if one is."""
    close = closest(word, known)
    return f". Did you mean '{safe(close)}'?" if close else ""


def unknown_command(word: str, commands: Collection[str], codes: Collection[str] = ()) -> str:
    """Return what is said of a word that is none of the `commands`, nor of the findings' `codes`; safe to print."""
    said = f"unknown command '{safe(word)}'."
    if word in _OTHER_NAMES and _OTHER_NAMES[word] in commands:
        return f"{said} Its name is '{_OTHER_NAMES[word]}': kdump {_OTHER_NAMES[word]} --help"
    close = closest(word, commands) or closest(word.upper(), codes, 0.7)
    return f"{said} Did you mean '{close}'?" if close else f"{said} 'kdump help' lists the commands."
