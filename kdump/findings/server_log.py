"""What Kafka's log of itself says about log directories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from kdump.errors import check_type
from kdump.findings.kafka_messages import MAX_LINE, KafkaMessage, messages_in, partition_in

_TIME = re.compile(r"\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)")
_MAX_ENTRIES = 100_000
_MAX_LINES = 50_000_000


@dataclass(slots=True)
class Entry:
    """A message about a place: how many lines have it, and where and when the first one is."""

    message: KafkaMessage
    place: str | None
    line: int
    time: str | None
    count: int = 1


class ServerLog:
    """Takes the lines of a log; the first message of each line counts."""

    def __init__(self) -> None:
        self.lines = 0
        self._time: str | None = None
        self._entries: dict[tuple[str, str | None], Entry] = {}

    def read(self, lines: Iterable[str]) -> None:
        """Take lines, of which only the beginning is looked at; those of an open file may be of any length.

        Raises TypeError for bytes.
        """
        for line in _beginnings(lines):
            check_type("lines", line, str)
            self.lines += 1
            self._take(line[:MAX_LINE])

    def _take(self, line: str) -> None:
        if time := _TIME.match(line):
            self._time = time[1]
        said = next(messages_in(line), None)
        if said is None:
            return
        place = partition_in(said, line)
        key = (said.message.template, place)
        if key in self._entries:
            self._entries[key].count += 1
        elif len(self._entries) < _MAX_ENTRIES:
            self._entries[key] = Entry(said.message, place, self.lines, self._time)

    def entries(self) -> list[Entry]:
        """Return what was found: first what needs somebody, in the order of the lines."""
        return sorted(self._entries.values(), key=lambda entry: (not entry.message.do, entry.line))


def _beginnings(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines; of a file in no larger pieces than what is looked at of a line."""
    readline = getattr(lines, "readline", None)
    if readline is None:
        yield from lines
        return
    is_rest = False
    for piece in islice(iter(lambda: readline(MAX_LINE), ""), _MAX_LINES):
        if not is_rest:
            yield piece
        is_rest = not piece.endswith("\n")
