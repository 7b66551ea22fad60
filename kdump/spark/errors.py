"""One line for the operator out of what Spark raises: our own message, without the stack traces of three languages."""

from __future__ import annotations

import re

_OURS = re.compile(r"^(?:pyspark[\w.]*: *)?kdump\.[\w.]*Error: (.+)$", re.MULTILINE)
_OF_SYSTEM = re.compile(
    r"^((?:[A-Z]\w*Error|MemoryError|KeyboardInterrupt): .+)$",
    re.MULTILINE,
)
_JAVA = re.compile(r"^(?:Caused by: )?[\w.$]+\.(\w+(?:Exception|Error)): (.+)$", re.MULTILINE)


def reason(error: BaseException) -> str:
    """What went wrong, in one line: kdump's message where the failure is one that it raised."""
    text = str(error)
    for pattern in (_OURS, _OF_SYSTEM):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    java = _JAVA.findall(text)
    if java:
        name, message = java[-1]
        return f"{name}: {message.strip()}"
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return re.sub(r"^\[[A-Z_.]+\] ", "", first)
