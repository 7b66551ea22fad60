"""Text that cannot drive a terminal, whatever a record, a name or a path holds."""

from __future__ import annotations

import os
import re
from binascii import b2a_base64

# controls (C0 but tab and line feed, DEL, C1), line and paragraph separators, marks of direction
_UNSAFE = "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"

_CONTROLS = {code: f"\\u{code:04x}" for code in (0x7F, *range(0x80, 0xA0), 0x2028, 0x2029)}


def safe(text: str) -> str:
    r"""Return `text` with everything that Unicode does not call printable escaped, as in \n, \x1b or \u202e.

    Backslashes of the text itself stay as they are: this is for reading.
    """
    if text.isprintable():
        return text
    # repr() escapes exactly what isprintable() objects to, at the speed of C; its quoting is undone again
    return repr(text)[1:-1].replace("\\'", "'").replace("\\\\", "\\")


def safe_path(path: str) -> str:
    """Return a path as text that cannot drive a terminal; bytes of it that are not UTF-8 are escaped."""
    return safe(os.fsencode(path).decode("utf-8", "backslashreplace"))


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
