"""The offset checkpoints of a log directory, and each partition's lines in them against its log."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.findings.finding import Finding, Offsets, found, unreadable
from kdump.findings.kind import GOES_OFFLINE
from kdump.formats import names
from kdump.formats.names import PartitionDirName
from kdump.formats.words import offset_range
from kdump.storage.checkpoints import Checkpoints, TopicPartition


def unusable(checkpoints: Checkpoints) -> Iterator[Finding]:
    """Yield checkpoints that cannot be read or parsed."""
    for name, error in checkpoints.errors.items():
        if isinstance(error, OSError):
            yield unreadable(checkpoints.path(name), error)
        else:
            effect = GOES_OFFLINE if error.is_io else None
            yield found("KD-CKPT-FORMAT", checkpoints.path(name), str(error), effect=effect)


def stale_lines(checkpoints: Checkpoints, present: set[TopicPartition]) -> Iterator[Finding]:
    """Yield lines of partitions that are not in the directory."""
    for name, lines in checkpoints.lines.items():
        for (topic, partition), offset in lines.items():
            if (topic, partition) not in present:
                text = f"{topic}-{partition} (offset {offset}) is not in this directory"
                yield found("KD-CKPT-STALE", checkpoints.path(name), text, offset=offset)


_MISSING = {"KD-CKPT-RECOVERY": "flushed", "KD-CKPT-HIGH-WATERMARK": "committed"}


def check_partition(
    checkpoints: Checkpoints, partition: PartitionDirName, start_offset: int, end_offset: int, *, was_closed: bool
) -> Iterator[Finding]:
    """Yield a partition's lines against its log, which begins at `start_offset` and ends before `end_offset`.

    A log that `was_closed` in order is flushed up to its end.
    """
    directory = f"{partition.topic}-{partition.partition}"
    log_start, recovery, high_watermark, cleaner = checkpoints.of(partition)
    beyond = (
        ("KD-CKPT-RECOVERY", names.RECOVERY_POINT_CHECKPOINT, "recovery point", recovery),
        ("KD-CKPT-HIGH-WATERMARK", names.REPLICATION_CHECKPOINT, "high watermark", high_watermark),
        ("KD-CKPT-LOG-START", names.LOG_START_CHECKPOINT, "log start offset", log_start),
        ("KD-CKPT-CLEANER", names.CLEANER_CHECKPOINT, "cleaner's offset", cleaner),
    )
    for code, name, what, offset in beyond:
        if offset is not None and offset > end_offset:
            text = f"{what} {offset} is above the log end offset {end_offset}"
            missing = (end_offset, offset - 1) if code in _MISSING else None
            if missing:
                text += f": {_MISSING[code]} offsets {offset_range(*missing)} are not on this disk"
            yield _of_line(code, checkpoints.path(name), directory, text, offset, end_offset, missing=missing)
    if was_closed and recovery is not None and recovery < end_offset:
        text = f"recovery point {recovery} is below the log end offset {end_offset} after a clean shutdown"
        path = checkpoints.path(names.RECOVERY_POINT_CHECKPOINT)
        yield _of_line("KD-CKPT-BEHIND", path, directory, text, recovery, end_offset)
    if log_start is not None and high_watermark is not None and start_offset < high_watermark < log_start <= end_offset:
        text = f"log start offset {log_start} is above the high watermark {high_watermark}"
        path = checkpoints.path(names.LOG_START_CHECKPOINT)
        yield _of_line("KD-CKPT-ORDER", path, directory, text, log_start, end_offset)


def _of_line(
    code: str, path: str, partition: str, text: str, offset: int, end_offset: int, *, missing: Offsets | None = None
) -> Finding:
    """Return a finding about the `offset` in the line of a partition; it is about the `missing` offsets, if any."""
    details = {"checkpointOffset": offset, "logEndOffset": end_offset}
    return found(code, path, text, offset=offset, offsets=missing, details=details, partition=partition)
