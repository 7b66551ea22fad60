"""Lookups in a large segment: what one takes once the log is open, and how much of the log it reads."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import NamedTuple

import data
from processes import RunError

from kdump.query.lookup import LogLookup
from kdump.recovery.loader import load_log
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import content_of

LOOKUPS = 2000


class LookupCost(NamedTuple):
    """Seconds of a lookup (the median, and what one in a hundred exceeds), and the most bytes of the .log it read."""

    seconds: float
    slow: float
    read: int


def prepare(folder: Path, divisor: int) -> Path:
    """The partition directory to search, with the indexes that a broker's recovery builds."""
    return with_indexes(data.generate(data.SEARCHED, folder, divisor))


def with_indexes(path: Path) -> Path:
    """The partition directory of a .log, with the indexes that a broker's recovery builds."""
    index = path.with_suffix(".index")
    if not index.exists() or index.stat().st_mtime_ns < path.stat().st_mtime_ns:
        log = PartitionLog(str(path.parent))
        outcome = load_log(log, Startup(now=data.BASE_TIMESTAMP))
        for name, recipe in (outcome.files or {}).items():
            if name.endswith("index"):
                (path.parent / name).write_bytes(b"".join(content_of(log.path, recipe)))
    return path.parent


def measure(folder: Path) -> dict[str, LookupCost]:
    """What lookups by offset and by time cost in the partition directory. Raises RunError for a wrong answer."""
    with LogLookup(PartitionLog(str(folder)), clean=True) as lookup:
        numbers = random.Random("lookups")
        end = lookup.log_end_offset()
        offsets = [numbers.randrange(end) for _ in range(LOOKUPS)]

        def by_offset(offset: int) -> int:
            return lookup.find_offset(offset).batch_base_offset

        def by_time(offset: int) -> int:
            found = lookup.find_timestamp(data.BASE_TIMESTAMP + offset)
            return found.offset if found else -1

        return {name: _cost(lookup, search, offsets) for name, search in (("offset", by_offset), ("time", by_time))}


def _cost(lookup: LogLookup, search: Callable[[int], int], offsets: list[int]) -> LookupCost:
    """What it takes to search for each of these offsets."""
    search(offsets[0])  # which opens the files
    seconds, read = [], []
    for offset in offsets:
        before = lookup.log_bytes_read
        start = perf_counter()
        found = search(offset)
        seconds.append(perf_counter() - start)
        read.append(lookup.log_bytes_read - before)
        if found != offset:
            raise RunError(f"a lookup found offset {found} for {offset}")
    return LookupCost(median(seconds), quantiles(seconds, n=100)[-1], max(read))
