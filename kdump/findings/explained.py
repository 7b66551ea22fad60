"""What there is to say of a finding's code, and of a line that Kafka prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from kdump.errors import KdumpError
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.explanations import EXPLANATIONS, Explanation
from kdump.findings.kafka_messages import KafkaMessage, messages_in, partition_in, said_of
from kdump.findings.kind import FindingKind
from kdump.formats.close_names import closest

_FOLD = re.compile(r"\s*\\?\n\s*")
"""Where a line was folded to fit a page, with a backslash or without."""


class Explained(NamedTuple):
    """A finding's code: its entry of the catalogue, what that means in plain words, and what Kafka prints of it."""

    kind: FindingKind
    explanation: Explanation
    kafka_says: tuple[str, ...]


class Recognized(NamedTuple):
    """A message of Kafka's, and the partition directory that the line is about, or its name (None: it has neither)."""

    message: KafkaMessage
    place: str | None


def kinds_named(words: Sequence[str]) -> list[FindingKind]:
    """Return the kinds that codes or patterns name; all without any; none where the words are those of a line.

    Raises KdumpError for a code that no finding has.
    """
    if not words:
        return list(CATALOGUE.values())
    if not all(word.upper().startswith("KD-") for word in words):
        return []
    kinds = []
    for word in words:
        found = [kind for code, kind in CATALOGUE.items() if fnmatchcase(code, word.upper())]
        if not found:
            close = closest(word.upper(), CATALOGUE, 0.75)
            hint = f" Did you mean '{close}'?" if close else ""
            raise KdumpError(f"no finding has the code {word}.{hint} 'kdump explain' lists all codes.")
        kinds += found
    return kinds


def explained(kind: FindingKind) -> Explained:
    """Return what there is to say of a kind of finding."""
    return Explained(kind, EXPLANATIONS[kind.code], tuple(said_of(kind.code)))


def recognized(line: str) -> Recognized | None:
    """Return the first message that a line has, which may be folded; it is the one that matters. None without any."""
    line = _FOLD.sub(" ", line)
    said = next(messages_in(line), None)
    return None if said is None else Recognized(said.message, partition_in(said, line))
