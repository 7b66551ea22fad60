"""Text that cannot drive a terminal, and words that a shell takes as they are, whatever a name or a record holds."""

from __future__ import annotations

import re
from binascii import b2a_base64

# controls (C0 but tab and line feed, DEL, C1), line and paragraph separators, marks of direction
_UNSAFE = "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"

_NOT_UTF8 = "[\udc80-\udcff]"
"""Bytes as Python has them in paths."""

_PRINTABLE_ASCII = bytes((ord("\n"), *range(ord(" "), 0x7F)))

_CONTROLS = {code: f"\\u{code:04x}" for code in (0x7F, *range(0x80, 0xA0), 0x2028, 0x2029)}


def safe(text: str) -> str:
    r"""Return `text` with everything that Unicode does not call printable escaped, as in \n, \x1b or \u202e.

    Bytes of a path that are not UTF-8 are escaped too, as in \xff. Backslashes of the text itself stay as they are:
    this is for reading.
    """
    if text.isprintable():
        return text
    text = re.sub(_NOT_UTF8, lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02x}", text)
    # repr() escapes exactly what isprintable() objects to, at the speed of C; its quoting is undone again
    return repr(text)[1:-1].replace("\\'", "'").replace("\\\\", "\\")


safe_path = safe


def safe_lines(text: str) -> str:
    """Return text with all but its line ends escaped as `safe` does."""
    return text if is_printable(text) else "\n".join(map(safe, text.split("\n")))


def is_printable(text: str) -> bool:
    """Return whether a text has nothing that `safe_lines` would escape."""
    # isprintable() takes 25 times as long for a letter as this does for one of ASCII
    others = text.encode("utf-8", "surrogatepass").translate(None, _PRINTABLE_ASCII)
    return not others or others.decode("utf-8", "surrogatepass").isprintable()


def shell_word(text: str) -> str:
    """Return a word of a command line to be pasted into bash or zsh: printable, and there the bytes of `text`."""
    if text.isprintable():
        from shlex import quote

        return quote(text)
    return f"$'{''.join(map(_shell_character, text))}'"


def _shell_character(character: str) -> str:
    if character.isprintable() and character not in "\\'":
        return character
    errors = "surrogateescape" if re.match(_NOT_UTF8, character) else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", errors))


def command_line(*words: str) -> str:
    """Return a command to paste."""
    return " ".join(map(shell_word, words))


def escape_json(text: str) -> str:
    r"""Return JSON text with all control characters, and all that turn the direction of writing, as \u escapes.

    They can only be inside strings, where an escape means the same: JSON itself asks for U+0000 to U+001F only.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return re.sub(_UNSAFE, lambda found: f"\\u{ord(found[0]):04x}", text)


def escape_controls(text: str) -> str:
    r"""Return JSON text with controls and separators as \u escapes, also those that JSON does not ask for."""
    return text.translate(_CONTROLS)


def is_unsafe(text: str) -> bool:
    """Return whether a text could drive a terminal or turn the direction of writing; tabs and line feeds cannot."""
    return not text.isprintable() and re.search(_UNSAFE, text) is not None


def base64(data: bytes | bytearray) -> str:
    """Return bytes in base64, with padding."""
    return b2a_base64(data, newline=False).decode()
