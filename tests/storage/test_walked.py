"""What one walk has kept of a log is what another walk would read, wherever it begins and ends."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kdump.blocks import BATCH_COLUMNS, BatchBlock
from kdump.formats.codecs import GZIP
from kdump.mend.survey import survey
from kdump.recovery.loader import load_log
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from kdump.storage.recipe import NewContent, Part, SourceBytes, joined
from kdump.storage.walked import COLUMNS, WalkedLogs
from tests.recovery.building import NOW, batch, file, make_log, marker, produced
from tests.sampling import sampled

LOG = file(0, "log")


def data(random: Random) -> bytes:
    """A log of small batches, markers among them, with a few bytes changed."""
    parts, offset = [], 0
    for _ in range(random.randrange(1, 40)):
        count = random.randrange(1, 4)
        kind = random.randrange(4)
        if kind == 0:
            parts += [produced(offset, 7, transactional=True), marker(offset + 1, 7)]
            count = 2
        else:
            parts.append(batch(offset, count, attributes=random.choice((0, GZIP)), timestamp=random.randrange(9999)))
        offset += count + random.randrange(2)
    changed = bytearray(b"".join(parts))
    for _ in range(random.randrange(3)):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed[: len(changed) - random.choice((0, 0, 5))])


def rows(view: LogView, start: int, stop: int | None) -> tuple[list[tuple[int, ...]], int, int]:
    """All rows of a walk, as one block has them, and how it ended."""
    found: list[tuple[int, ...]] = []
    block: BatchBlock | None = None
    for block in view.blocks(start, stop):
        columns = [getattr(block, name)[: block.length] for name in BATCH_COLUMNS]
        found += zip(*columns, strict=True)
    assert block is not None
    return found, block.status, block.next_position


@pytest.mark.parametrize("seed", sampled(range(150), 15))
def test_a_walk_from_what_is_known_is_the_walk_of_the_file(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    content = data(random)
    log = make_log(tmp_path, {LOG: content})
    plain = PlannedPartition(log)
    survey(log, Startup(now=NOW, clean=False), deep=bool(seed % 2))
    known = PlannedPartition(log)
    with LogView(plain, LOG) as view:
        edges = [row[0] for row in rows(view, 0, None)[0]] + [len(content)]
    cuts = sorted(random.choices(edges, k=4))
    first, last = SourceBytes(LOG, 0, cuts[0]), SourceBytes(LOG, cuts[1], cuts[2] - cuts[1])
    pieces: list[Part] = [first, NewContent(batch(9), len(batch(9))), last]
    for recipe in (SourceBytes(LOG, 0, len(content)), SourceBytes(LOG, 0, cuts[3]), joined(pieces)):
        plain.put(LOG, recipe)
        known.put(LOG, recipe)
        for start in {0, *edges[::3], random.randrange(len(content))}:
            for stop in (None, random.choice(edges), random.randrange(len(content) + 1)):
                with LogView(plain, LOG) as read, LogView(known, LOG) as kept:
                    if start <= recipe.size:
                        assert rows(kept, start, stop) == rows(read, start, stop), (start, stop)


@pytest.mark.parametrize("seed", sampled(range(60), 10))
def test_loading_gives_the_same_with_it_and_without(tmp_path: Path, seed: int) -> None:
    content = data(Random(seed))
    startup = Startup(now=NOW, clean=False)
    plain = make_log(tmp_path, {LOG: content})
    known = PartitionLog(plain.path)
    survey(known, startup, deep=False)
    assert load_log(known, startup) == load_log(plain, startup)


def test_a_plan_reads_the_bytes_of_a_sound_log_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log(tmp_path, {LOG: b"".join(batch(offset) for offset in range(100))})
    startup = Startup(now=NOW, clean=False)
    survey(log, startup, deep=False)

    def fails(_: LogView, name: str) -> None:
        raise AssertionError(f"{name} is read again")

    monkeypatch.setattr(LogView, "_file", fails)
    assert load_log(log, startup).log_end_offset == 100


def test_what_there_is_no_room_for_is_read_again(tmp_path: Path) -> None:
    content = b"".join(batch(offset, timestamp=offset) for offset in range(100))
    log = make_log(tmp_path, {LOG: content})
    with LogView(PlannedPartition(log), LOG) as view:
        block = next(view.blocks())
        columns = {name: getattr(block, name)[: block.length] for name in COLUMNS}
        expected = rows(view, 0, None)
    for room in (0, 10_000):
        log.walked = WalkedLogs(room)
        log.walked.add(LOG, {name: column[:50] for name, column in columns.items()})
        assert (log.walked.block(LOG, 0, len(content)) is not None) == bool(room)
        with LogView(PlannedPartition(log), LOG) as view:
            assert rows(view, 0, None) == expected
