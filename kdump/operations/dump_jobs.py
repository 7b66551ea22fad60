"""What is to be dumped of a place: its logs, and the files beside them that are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kdump.errors import KdumpError, check_number, check_truths, check_word
from kdump.formats import names
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.names import FileName, PartitionDirName
from kdump.query.selection import Selection
from kdump.storage.around import directory_around
from kdump.storage.live import opened
from kdump.storage.lone_log import LoneLog
from kdump.storage.open import KafkaFile, Place
from kdump.storage.partition import PartitionLog
from kdump.txns.isolation_level import Isolation

if TYPE_CHECKING:
    from kdump.change.kept import KeptPiece

LOGS = (names.LOG, *names.METADATA_SNAPSHOT_KINDS)
"""The kinds of files that have batches; the others are tables (interchange.file_rows)."""

Job: TypeAlias = "PartitionLog | KafkaFile | KeptPiece | LoneLog"
"""A partition directory stands for its live segments; a file is a log or a table."""


class DumpRequest(NamedTuple):
    """What is shown. `kinds` are those of formats.names that directories are dumped for.

    With `kept` it is what changes keep of the logs of directories. Of a partition only the last `tail` records (or
    batches) that are selected. `follow`: then what comes. `includes_damaged`: batches too that fail their CRC. At most
    `limit` records (batches with `batches_only`, rows of other files) in all. `raw`: keys and values are not decoded.
    """

    selection: Selection = Selection()
    kinds: frozenset[str] = frozenset((names.LOG,))
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    batches_only: bool = False
    follow: bool = False
    use_indexes: bool = True
    includes_damaged: bool = False
    kept: bool = False
    tail: int | None = None
    max_decompressed: int = DEFAULT_LIMIT
    limit: int | None = None
    raw: bool = False

    def check(self, *, is_alone: bool = False) -> None:
        """Raise ValueError, TypeError for what makes no sense; `is_alone`: of logs without a partition."""
        truths = ("batches_only", "follow", "use_indexes", "includes_damaged", "kept", "raw")
        check_truths(**{name: getattr(self, name) for name in truths})
        self.selection.check()
        check_number("limit", self.limit, 1, may_be_none=True)
        check_number("tail", self.tail, 0, may_be_none=True)
        check_number("max_decompressed", self.max_decompressed, 1)
        if self.follow and self.isolation is Isolation.READ_COMMITTED:
            raise ValueError("follow gives records before their transactions end: not for read_committed")
        if self.follow and self.kept:
            raise ValueError("what changes keep of logs does not grow: leave out follow or kept")
        is_isolated = self.isolation is Isolation.READ_COMMITTED
        if is_alone and (self.follow or self.kept or self.tail is not None or is_isolated):
            raise ValueError("a log without a partition is read alone: leave out follow, kept, tail and isolation")


INCLUDED: Mapping[str, tuple[str, ...]] = {
    "log": (names.LOG,),
    "index": (names.OFFSET_INDEX,),
    "timeindex": (names.TIME_INDEX,),
    "txnindex": (names.TXN_INDEX,),
    "snapshot": (names.PRODUCER_SNAPSHOT,),
    "kraft-snapshot": names.METADATA_SNAPSHOT_KINDS,
    "checkpoints": (
        *names.OFFSET_CHECKPOINTS,
        names.LEADER_EPOCH_CHECKPOINT,
        names.PARTITION_METADATA,
        names.META_PROPERTIES,
        names.CLEAN_SHUTDOWN,
        names.QUORUM_STATE,
    ),
}
"""The words for what is dumped of a directory, and the kinds of files (formats.names) that each stands for."""
ALL = "all"
"""Stands for all of them."""


def kinds_of(words: Iterable[str]) -> frozenset[str]:
    """Return the kinds of files that words of INCLUDED, or ALL, stand for. Raises ValueError."""
    chosen = set(words)
    for word in chosen:
        check_word("include", word, (*INCLUDED, ALL))
    return frozenset(kind for word, kinds in INCLUDED.items() if not chosen.isdisjoint((word, ALL)) for kind in kinds)


def jobs_of(place: Place, request: DumpRequest, unreadable: list[tuple[str, OSError]]) -> list[Job]:
    """Return what is to be dumped of a place; partitions that cannot be listed go into `unreadable`.

    Raises FileNotFoundError where what is kept is asked for and nothing is, KdumpError where it is asked of a file.
    """
    return _kept(place, unreadable) if request.kept else list(_jobs(place, request, unreadable))


def _kept(place: Place, unreadable: list[tuple[str, OSError]]) -> list[Job]:
    """Return what changes keep of a partition's logs, or of all partitions that are or were in a log directory."""
    if isinstance(place, KafkaFile):
        raise KdumpError(f"{place.path} is a file: changes keep something of directories")
    from kdump.change.change import Change
    from kdump.change.journal import Changes, changes_of
    from kdump.change.kept import kept_pieces

    changes: list[Change] = []
    found: Changes | None = None
    try:
        if isinstance(place, PartitionLog):
            changes = changes_of(place.path)
        else:
            found = Changes(place.path)
            changes = found.all()
    except OSError as error:
        unreadable.append((place.path, error))
    folder = directory_around(place.path) if isinstance(place, PartitionLog) else place.path
    jobs: list[Job] = [_as_given(piece, folder) for change in changes for piece in kept_pieces(change)]
    unreadable += [(place.path, OSError(0, str(error))) for error in (found.unreadable if found else ())]
    if not jobs and not unreadable:
        raise FileNotFoundError(2, "no change keeps anything of its logs", place.path)
    return jobs


def _as_given(piece: KeptPiece, folder: str) -> KeptPiece:
    """Return a piece with its path as that of its log directory is given."""
    root = os.path.abspath(folder) + os.sep
    return piece._replace(path=os.path.join(folder, piece.path[len(root) :])) if piece.path.startswith(root) else piece


def _jobs(place: Place, request: DumpRequest, unreadable: list[tuple[str, OSError]]) -> Iterator[Job]:
    if isinstance(place, KafkaFile):
        yield place
        return
    if isinstance(place, PartitionLog):
        if names.LOG in request.kinds and (place.segments or request.follow):
            yield place
        yield from _files(place.path, place.files, place.name, request)
        return
    yield from _files(place.path, {name: names.parse_file_name(name) for name in place.files}, None, request)
    for name in place.partition_names:
        path = os.path.join(place.path, name)
        try:
            partition = opened(path)
        except OSError as error:
            unreadable.append((path, error))
            continue
        if partition is not None:
            yield from _jobs(partition, request, unreadable)


def _files(
    folder: str, files: dict[str, FileName], partition: PartitionDirName | None, request: DumpRequest
) -> Iterator[KafkaFile]:
    """Yield the files of a directory that are not part of its log; a .log without a base offset is one."""
    for name, parsed in files.items():
        is_asked = parsed.kind in request.kinds and parsed.state == names.LIVE
        if is_asked and (parsed.kind != names.LOG or parsed.offset is None):
            yield KafkaFile(os.path.join(folder, name), parsed, partition)
