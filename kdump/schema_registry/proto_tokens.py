"""The words, numbers, texts and signs that a .proto file is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kdump.schema_registry.errors import SchemaError

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<sign>[{}\[\]()<>;,=.+\-:/])""",
    re.DOTALL,
)
_ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}
_ESCAPED = re.compile(rb"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


class Tokens:
    """The tokens of a text, taken one after the other."""

    def __init__(self, text: str) -> None:
        """Raise SchemaError for what is no token."""
        self._tokens = list(_tokens(text))
        self._at = 0

    def peek(self) -> str:
        """Return the next token without taking it; empty at the end."""
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def after(self) -> str:
        """Return the token behind the next one."""
        return self._tokens[self._at + 1][0] if self._at + 1 < len(self._tokens) else ""

    def next(self) -> str:
        """Take the next token. Raises SchemaError at the end."""
        token = self.peek()
        if not token:
            raise SchemaError("no .proto file: it breaks off")
        self._at += 1
        return token

    def skips(self, token: str) -> bool:
        """Take the next token if it is this one; whether it is."""
        if self.peek() != token:
            return False
        self._at += 1
        return True

    def expect(self, token: str) -> None:
        """Take this token. Raises SchemaError for another."""
        line = self._tokens[self._at][1] if self._at < len(self._tokens) else 0
        found = self.next()
        if found != token:
            raise SchemaError(f"no .proto file: line {line}: expected {token!r}, found {found!r:.40}")

    def name(self) -> str:
        """Take a name, dots included."""
        parts = ["."] if self.skips(".") else []
        parts.append(self.next())
        while self.skips("."):
            parts += (".", self.next())
        return "".join(parts)

    def number(self) -> int:
        """Take a whole number. Raises SchemaError for anything else."""
        sign = -1 if self.skips("-") else 1
        return sign * integer(self.next())

    def text(self) -> bytes:
        """Take a text, of which parts may follow each other. Raises SchemaError for anything else."""
        parts = []
        while self.peek()[:1] in ("'", '"') and self.peek():
            parts.append(_unescape(self.next()))
        if not parts:
            raise SchemaError(f"no .proto file: expected a text, found {self.peek()!r:.40}")
        return b"".join(parts)

    def statements(self) -> Iterator[str]:
        """Yield the first word of each statement in a block, which is not taken yet; empty ones are skipped."""
        self.expect("{")
        while not self.skips("}"):
            if not self.skips(";"):
                yield self.peek()

    def skip_block(self) -> None:
        """Take all up to the end of a block."""
        self.expect("{")
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.next(), 0)

    def skip_brackets(self) -> None:
        """Take all up to the end of what is in brackets."""
        self.expect("[")
        depth = 1
        while depth:
            depth += {"[": 1, "]": -1}.get(self.next(), 0)


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise SchemaError(f"no .proto file: line {line}: found {text[at : at + 20]!r}")
        if not found["space"]:
            yield found[0], line
        line += found[0].count("\n")
        at = found.end()


def integer(token: str) -> int:
    """Return a whole number, decimal, octal or hexadecimal. Raises SchemaError."""
    try:
        if token[:2] in ("0x", "0X"):
            return int(token, 16)
        return int(token, 8 if len(token) > 1 and token[0] == "0" else 10)
    except ValueError:
        raise SchemaError(f"no .proto file: expected a number, found {token!r:.40}") from None


def _unescape(token: str) -> bytes:
    return _ESCAPED.sub(_escaped, token[1:-1].encode())


def _escaped(found: re.Match[bytes]) -> bytes:
    hexadecimal, octal, short, long, plain = found.groups()
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    if short or long:
        return chr(int(short or long, 16)).encode("utf-8", "replace")
    code = _ESCAPES.get(plain.decode("latin-1"))
    return plain if code is None else bytes([code])
