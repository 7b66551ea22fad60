"""`lookup --offset` in batches that are out of order, against each release's own search."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.query.lookup import LATEST
from tests.kafka.command import kdump
from tests.kafka.directories import MADE
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Tally

LOGS = 16
LAST = 45


def _log(random: Random) -> bytes:
    """Some batches whose ranges of offsets go up, mostly, and overlap, or go back."""
    content, first = b"", 0
    for _ in range(random.randint(1, 9)):
        count = random.randint(1, 6)
        content += encode_batch([NewRecord(first + n, 1000, None, b"value") for n in range(count)], NewBatch())
        first = max(0, first + count + random.choice((0, 0, 0, 1, 3, -1, -count, -count - 4)))
    return content


def test_offsets_lead_where_the_release_finds_them(release: str, tally: Tally, tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    log = partition / f"{0:020}.log"
    requests = [{"offset": offset} for offset in range(LAST + 1)]
    with tally.of(release, Column.READ) as compare, Kit(release, MADE, tmp_path / "kit.log") as kit:
        for number in range(LOGS):
            log.write_bytes(_log(Random(number)))
            printed = kit.tool("Search", str(log), "0", str(LAST)).out.decode()
            theirs = dict(line.split() for line in printed.splitlines())
            *rows, end = kdump(
                "lookup", partition, "--kafka", release, "--batch", "-", requests=[*requests, {"timestamp": LATEST}]
            ).rows
            for offset, row in enumerate(rows[: end["result"]["offset"]]):  # above it a broker does not search
                position = str(row["position"]) if row["isFound"] else "none"
                compare.same(f"log {number}: position of {offset}", position, theirs[str(offset)])
