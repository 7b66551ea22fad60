"""One line for the operator out of what Spark raises: our own message, without the stack traces of three languages."""

from __future__ import annotations

import re

_OURS = re.compile(r"^(?:pyspark[\w.]*: *)?kdump\.[\w.]*Error: (.+)$", re.MULTILINE)
_OF_SYSTEM = re.compile(r"^((?:[A-Z]\w*Error|MemoryError|KeyboardInterrupt): .+)$", re.MULTILINE)
_JAVA = re.compile(
    r'^(?:Caused by: |Exception in thread "[^"]*" )?[\w.$]+\.(\w+(?:Exception|Error)): (.+)$', re.MULTILINE
)


def reason(error: BaseException) -> str:
    """Return what went wrong, in one line: kdump's message where the failure is one that it raised."""
    text = str(error)
    for pattern in (_OURS, _OF_SYSTEM):
        if found := pattern.findall(text):
            return str(found[-1]).strip()
    if java := java_reason(text):
        return java
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return re.sub(r"^\[[A-Z_.]+\] ", "", first)


def java_reason(text: str) -> str | None:
    """Return the last exception of Java's that a text tells of, in one line; None without one."""
    found = _JAVA.findall(text)
    return f"{found[-1][0]}: {found[-1][1].strip()}" if found else None
