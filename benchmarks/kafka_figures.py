"""What Kafka's own kafka-dump-log takes, to compare with.

Seconds of whole processes writing to /dev/null, measured with Kafka 4.0 on a comparable 2-core machine, files of the
same kinds in the page cache. Start-up, part of every figure, was 0.70 s; peak memory 220 to 260 MB.
"""

from __future__ import annotations

from typing import NamedTuple

START = 0.70


class Figure(NamedTuple):
    """`size` of the file in bytes; seconds for the headers alone, with --deep-iteration and with --print-data-log."""

    size: int
    headers: float
    deep: float
    print: float

    def scaled(self, dump: str, size: int) -> float:
        """The seconds that a dump of `size` bytes takes if all of it, start-up too, shrinks with the file."""
        seconds: float = getattr(self, dump)
        return seconds * size / self.size

    def without_start(self, dump: str, size: int) -> float:
        """The same of what comes after the start."""
        seconds: float = getattr(self, dump)
        return (seconds - START) * size / self.size


FIGURES = {
    "large-batches": Figure(1 << 30, 1.40, 3.08, 5.31),
    "one-record": Figure(1 << 28, 5.22, 7.56, 9.15),  # 1.28 M records
    "lz4": Figure(1 << 28, 0.96, 4.58, 7.63),  # 2.34 M records of about 200 B
    "zstd": Figure(1 << 28, 1.01, 7.61, 12.22),  # 3.86 M records
}
