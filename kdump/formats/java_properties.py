r"""Java's properties files, the format of meta.properties.

    # comment, or ! comment, after any blanks
    key=value          also `key: value` and `key value`; blanks around the separator do not count
    key=first \
        second         a backslash at the end of a line joins it with the next one, whose leading blanks do not count

ISO-8859-1; \t \n \r \f and \uXXXX stand for characters, a backslash before anything else for that character itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.errors import CheckpointError

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE_DIGITS = 4
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


def parse_properties(data: bytes, path: str) -> dict[str, str]:
    r"""Return the keys and values of a properties file; of a repeated key the last value, in the first one's place.

    Raises CheckpointError at a \u that no four hexadecimal digits follow; `path` is what the text calls the file.
    """
    properties = {}
    for line in _logical_lines(data.decode("latin-1")):
        key_end, value_at = _split_property(line)
        properties[_unescape(line[:key_end], path)] = _unescape(line[value_at:], path)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines, neither blank nor comments, without leading blanks, joined where a backslash continues them."""
    pending: str | None = None
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n"):
        line = natural.lstrip(_BLANK)
        if not pending and line[:1] in ("#", "!"):
            pending = None
            continue
        whole = (pending or "") + line
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        pending = whole[:-1] if is_continued else None
        if pending is None and whole:
            yield whole
    if pending is not None:
        yield pending


def _split_property(line: str) -> tuple[int, int]:
    """Return where the key ends (at the first '=', ':' or blank without backslash), and where the value begins."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANK)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANK)
    return end, len(line) - len(value)


def _unescape(text: str, path: str) -> str:
    if "\\" not in text:
        return text
    out = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "\\":
            character = text[at : at + 1]
            at += 1
            if character == "u":
                character = _unicode_escape(text[at : at + _ESCAPE_DIGITS], path)
                at += _ESCAPE_DIGITS
            else:
                character = _ESCAPES.get(character, character)
        out.append(character)
    return "".join(out)


def _unicode_escape(digits: str, path: str) -> str:
    if len(digits) != _ESCAPE_DIGITS or not _HEX_DIGITS.issuperset(digits):
        raise CheckpointError(f"Malformed \\uxxxx encoding. ({path})")
    return chr(int(digits, 16))
