"""Log directories whose segments have the ages that a test wants."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from kdump.change.apply import apply_plan
from kdump.change.guard import ANY_LOSS
from kdump.change.place import new_change
from kdump.formats import names
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.mend.as_broker import plan_recovery
from kdump.recovery.startup import Startup
from kdump.retention.partition import Circumstances, PartitionRetention, examine
from kdump.retention.segments import Shutdown
from kdump.settings.retention import RetentionSettings
from kdump.settings.sources import COMMAND_LINE, TopicSettings
from kdump.storage.checkpoints import PartitionCheckpoints
from kdump.storage.partition import PartitionLog
from tests.commands.logs import write_segment

NOW = 1_800_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
CLEAN = Shutdown(clean=True)

Records = Sequence[int]
"""The timestamps of a batch's records."""


def batch(first: int, timestamps: Records, *, attributes: int = 0, producer_id: int = -1, value: bytes = b"v") -> bytes:
    """A batch of records with these timestamps, from offset `first` on."""
    records = [NewRecord(first + n, timestamp, b"key-%d" % n, value) for n, timestamp in enumerate(timestamps)]
    epoch, sequence = (0, 0) if producer_id >= 0 else (-1, -1)
    return encode_batch(records, NewBatch(attributes, producer_id, epoch, sequence, 0, max_timestamp=max(timestamps)))


def write_log(folder: Path, segments: Iterable[Iterable[Records]], *, value: bytes = b"v", first: int = 0) -> Path:
    """A partition directory: for every segment its batches, given by their records' timestamps; offsets in a row."""
    offset = first
    for batches in segments:
        base, data = offset, []
        for timestamps in batches:
            data.append(batch(offset, timestamps, value=value))
            offset += len(timestamps)
        path = write_segment(folder, base, data)
        os.utime(path, ns=(NOW * 1_000_000, NOW * 1_000_000))
    return folder


def settle(partition: Path, now: int = NOW) -> None:
    """Give a partition every file that a broker has written when it has closed the log."""
    _, plan = plan_recovery(PartitionLog(str(partition)), Startup(now))
    assert plan is not None
    apply_plan(plan, new_change(str(partition)), keep_old=False, allowance=ANY_LOSS)


def checkpoint(log_dir: Path, name: str, **offsets: int) -> None:
    """Write an offset checkpoint with an entry for partition 0 of each topic."""
    lines = [f"{topic} 0 {offset}\n" for topic, offset in offsets.items()]
    (log_dir / name).write_text(f"0\n{len(lines)}\n{''.join(lines)}")


def read_checkpoint(log_dir: Path, name: str) -> dict[str, int]:
    """The offsets of an offset checkpoint by topic."""
    lines = (log_dir / name).read_text().splitlines()[2:]
    return {line.split()[0]: int(line.split()[2]) for line in lines}


def settings(**properties: object) -> RetentionSettings:
    """Settings given on the command line; an underscore in a name stands for a dot."""
    given = {name.replace("_", "."): str(value) for name, value in properties.items()}
    return RetentionSettings.of(TopicSettings.of(given))._replace(sources=(COMMAND_LINE,))


def look(
    partition: Path,
    *,
    shutdown: Shutdown = CLEAN,
    checkpoints: PartitionCheckpoints | None = None,
    now: int = NOW,
    start: int | None = None,
    **properties: object,
) -> PartitionRetention:
    """What retention does with these settings."""
    circumstances = Circumstances(shutdown, checkpoints or PartitionCheckpoints(), now, start)
    return examine(PartitionLog(str(partition)), circumstances, settings(**properties))


def log_names(partition: Path) -> list[str]:
    """The base offsets, as text, of the segments that are there."""
    return sorted(str(int(path.stem)) for path in partition.glob(f"*.{names.LOG}"))
