"""What `kdump verify` finds in one partition, as a repair needs it: which files, and which of them are damaged logs."""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Generator, Iterable, Iterator
from errno import EIO
from typing import NamedTuple

from kdump.check.batch_rows import BatchRows
from kdump.check.options import Options
from kdump.check.run import Verification
from kdump.check.work import LogDirectoryContext
from kdump.disk.reading import is_directory, is_file
from kdump.findings.finding import UNREAD, Finding
from kdump.findings.kind import NOTE
from kdump.formats import names
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.names import parse_file_name
from kdump.recovery.startup import Startup
from kdump.settings.retention import RetentionSettings
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.partition import PartitionLog
from kdump.storage.walked import COLUMNS, WalkedLogs

_ZEROS = frozenset(("KD-LOG-ZEROS", "KD-LOG-PREALLOCATED"))
TAIL = _ZEROS | {"KD-LOG-TORN", "KD-LOG-GARBAGE", "KD-LOG-SIZE"}
"""Bytes without a complete batch, at the end of a log: no record is in them that could be read again."""

UNREADABLE = frozenset(
    (
        "KD-BATCH-DELTA",
        "KD-BATCH-COUNT",
        "KD-BATCH-RECORDS",
        "KD-BATCH-OFFSETS",
        "KD-BATCH-MESSAGE-CRC",
        "KD-BATCH-CONTROL",
    )
)
"""Findings for which a batch is given up although its CRC matches: consumers or the broker stop at it, or it claims
offsets that are not its own. A batch with an odd header that is read all the same is kept: it is the data that
counts."""

DAMAGE = (
    TAIL
    | UNREADABLE
    | {
        "KD-LOG-CRC",
        "KD-LOG-MAGIC",
        "KD-LOG-ORDER",
        "KD-LOG-BASE",
        "KD-LOG-OVERLAP",
        "KD-LOG-OFFSET",
        "KD-LOG-OVERFLOW",
        "KD-LOG-NAME",
        "KD-BATCH-CODEC",
        "KD-TXN-MIXED",
        "KD-EPOCH-ORDER",
        "KD-FILE-SWAP-DAMAGED",
    }
)
"""Findings for which a .log may have to change."""

_BESIDE = (
    *names.INDEX_KINDS,
    names.PRODUCER_SNAPSHOT,
    names.LEADER_EPOCH_CHECKPOINT,
    names.PARTITION_METADATA,
)
"""The kinds of files beside a .log that a repair makes again, or removes."""


class Survey(NamedTuple):
    """The findings of a partition that call for a repair, notes apart.

    `damage` are those of .log files, in their order; `unsound` names the files beside them, present or missing, that
    have findings, `noted` those with notes, `leftovers` what a broker was cleaning or swapping when it stopped.
    """

    damage: tuple[Finding, ...] = ()
    unsound: frozenset[str] = frozenset()
    leftovers: frozenset[str] = frozenset()
    noted: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether there is anything to repair."""
        return bool(self.damage or self.unsound or self.leftovers)

    @property
    def damaged_logs(self) -> frozenset[str]:
        """The names of the .log files with damage."""
        return frozenset(os.path.basename(finding.path) for finding in self.damage)

    def is_zeros(self, name: str, position: int) -> bool:
        """Return whether the .log `name` holds nothing but zeros from byte `position` on."""
        return any(at == position for at, _ in self._places(name, _ZEROS))

    def faults(self, name: str) -> list[tuple[int, str]]:
        """Return where batches of the .log `name` cannot be read though the CRC matches (bytes), and why, in order."""
        return sorted(self._places(name, UNREADABLE))

    def suspects(self, name: str) -> frozenset[int]:
        """Return where the batches of the .log `name` begin (bytes) whose records are in doubt, as far as known."""
        return frozenset(at for at, _ in self._places(name, UNREADABLE | {"KD-BATCH-CODEC"}))

    def _places(self, name: str, codes: Collection[str]) -> Iterator[tuple[int, str]]:
        """Yield where (bytes) there are findings of these codes in the .log `name`, and what they say."""
        for finding in self.damage:
            if finding.code in codes and finding.position is not None and os.path.basename(finding.path) == name:
                yield finding.position, finding.message


def beside(repaired: Iterable[str], noted: Iterable[str]) -> Iterator[str]:
    """Yield the indexes of which there is a note, in the segments that have an index among those that are repaired.

    A note may count on the broker, which rebuilds all indexes of a segment where one is missing; then none is.
    """
    bases = {parsed.offset for parsed in map(parse_file_name, repaired) if parsed.kind in names.INDEX_KINDS}
    for name in noted:
        parsed = parse_file_name(name)
        if parsed.kind in names.INDEX_KINDS and parsed.offset in bases:
            yield name


def survey(
    log: PartitionLog, startup: Startup, *, deep: bool, deepens: bool = False, limit: int = DEFAULT_LIMIT
) -> Survey:
    """Verify the files of a partition; `deep` decodes every record, a batch of which may have `limit` bytes.

    One that `deepens` begins again, deep, as soon as it meets other damage than the end of the last segment. What is
    around the partition, checkpoints among it, is taken from `startup`, so that thousands of partitions do not read it
    again and again. What the walk reads of the logs is kept with `log`, for those that load it afterwards. Raises
    OSError for what cannot be read.
    """
    damage: list[Finding] = []
    unsound: set[str] = set()
    noted: set[str] = set()
    leftovers: set[str] = set()
    findings = _findings(log, startup, deep=deep, limit=limit)
    for finding in findings:
        name = os.path.basename(finding.path)
        if deepens and not deep and finding.code in DAMAGE and not is_end(log, finding):
            findings.close()
            return survey(log, startup, deep=True, limit=limit)
        if finding.code == UNREAD and _should_be_readable(finding.path):
            raise OSError(EIO, finding.message, finding.path)
        if finding.code in DAMAGE:
            damage.append(finding)
        elif finding.code == "KD-EPOCH-CHECKPOINT":  # told of the batch that it contradicts
            unsound.add(names.LEADER_EPOCH_CHECKPOINT)
        elif finding.code in _LEFTOVERS:
            leftovers.add(name)
        elif parse_file_name(name).kind in _BESIDE:
            (noted if finding.severity == NOTE else unsound).add(name)
    unsound |= {*beside(unsound, noted), *_unproved(log, unsound)}
    return Survey(tuple(damage), frozenset(unsound), frozenset(leftovers), frozenset(noted))


def _unproved(log: PartitionLog, unsound: Iterable[str]) -> Iterator[str]:
    """Yield the empty offset indexes of the segments whose time index is unsound.

    By that alone verification knows whether they had entries.
    """
    for parsed in map(parse_file_name, unsound):
        if parsed.kind == names.TIME_INDEX and parsed.offset is not None:
            name = names.segment_file_name(parsed.offset, f".{names.OFFSET_INDEX}")
            if name in log.files and not os.path.getsize(os.path.join(log.path, name)):
                yield name


def _should_be_readable(path: str) -> bool:
    """Return whether a path is a file or directory, and not a link or anything else that no broker has made."""
    return (is_file(path) or is_directory(path)) and not os.path.islink(path)


_LEFTOVERS = frozenset(("KD-FILE-SWAP", "KD-FILE-CLEANED"))


def is_end(log: PartitionLog, finding: Finding) -> bool:
    """Return whether damage is the incomplete end of the last segment."""
    return finding.code in TAIL and bool(log.segments) and finding.path == log.segments[-1].log_path


def _findings(
    log: PartitionLog, startup: Startup, *, deep: bool, limit: int
) -> Generator[Finding, None, None]:
    lines = {}
    if log.name is not None:
        lines[names.LOG_START_CHECKPOINT] = {(log.name.topic, log.name.partition): startup.log_start_offset}
    folder = os.path.dirname(os.path.abspath(log.path))
    listed = log if log.files and not log.is_replacing else None
    retention = RetentionSettings(loading=startup.config)
    is_closed = was_closed(log, startup)
    around = LogDirectoryContext(Checkpoints(folder, lines), is_closed, None, log=listed, retention=retention)
    options = Options(deep=deep, now=startup.now, limit=limit, max_per_code=0, ignore=("KD-TIME-*",))
    verification = Verification(options, around=around)
    log.walked = walked = WalkedLogs()
    verification.on_batches = lambda path, rows: walked.add(os.path.basename(path), _columns(rows))
    yield from verification.run([log.path])


def was_closed(log: PartitionLog, startup: Startup) -> bool:
    """Return whether the broker stopped in order.

    The cluster metadata's log is recovered at every start all the same (KafkaMetadataLog).
    """
    return startup.clean or (log.is_cluster_metadata and log.closed_cleanly)


def _columns(rows: BatchRows) -> dict[str, array[int]]:
    """Return the columns of batches as a walk has filled them: a deep look knows more of v0 and v1 wrappers."""
    columns = {name: getattr(rows, name) for name in COLUMNS}
    if min(rows.magic) < 2:
        bases = zip(rows.base_offset, rows.count, rows.magic, strict=True)
        columns["base_offset"] = array("q", [-1 if count < 0 and magic < 2 else base for base, count, magic in bases])
    return columns
