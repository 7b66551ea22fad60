"""What `kdump ls` says beside its tables: whose a directory is, how it was left, what is left over or out of place."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kdump.formats import names
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import listed, number_words, offset_range, size_text
from kdump.query.inventory import FileInfo, LogDirectoryInfo, PartitionInfo, Placement, replication_counts
from kdump.storage.facts import SegmentInfo

NAMES_SHOWN = 3

LEFTOVERS = {
    names.DELETED: "waiting for deletion (.deleted)",
    names.CLEANED: "of an unfinished cleaning (.cleaned)",
    names.SWAP: "of a replacement of segments that was not finished (.swap)",
    names.TMP: "of an unfinished write (.tmp)",
    names.PART: "of an unfinished snapshot (.part)",
}


def directory_words(info: LogDirectoryInfo, partitions: list[PartitionInfo]) -> str:
    """Return whose the directory is, how it was left, how much is in it."""
    node = [] if info.node_id is None else [f"{'controller' if info.is_controller else 'broker'} {info.node_id}"]
    has_epoch = info.broker_epoch is not None and info.broker_epoch >= 0  # -1 is written without KRaft
    epoch = f" (broker epoch {info.broker_epoch})" if has_epoch else ""
    shutdown = f"clean shutdown{epoch}" if info.clean_shutdown else "unclean shutdown"
    if info.has_broker:
        shutdown = "running"
    left = [*node, shutdown] if info.has_broker or not info.is_controller else node  # a controller leaves no marker
    shown = number_words(len(partitions), "partition")
    if len(partitions) < info.partition_count:
        shown = f"{len(partitions)} of {number_words(info.partition_count, 'partition')}"
    segments = sum(len(partition.segments) for partition in partitions)
    size = sum(partition.size for partition in partitions)
    return f"{', '.join(left)}; {shown}, {number_words(segments, 'segment')}, {size_text(size)}"


def directory_lines(info: LogDirectoryInfo) -> Iterator[str]:
    """Yield whose the directory is, besides what its heading says."""
    whose = []
    if info.cluster_id is not None:
        whose.append(f"cluster {safe(info.cluster_id)}")
    if info.directory_id is not None:
        whose.append(f"directory id {info.directory_id}")
    if info.release is not None:
        whose.append(f"Kafka {info.release}")
    if whose:
        yield ", ".join(whose)


def directory_notes(info: LogDirectoryInfo) -> Iterator[str]:
    """Yield what is left over or out of place in a log directory."""
    if info.not_partitions:
        yield f"{_listed(info.not_partitions)}: not the name of a partition, so the broker does not start"
    if info.missing:
        missing = _listed([f"{topic}-{number}" for topic, number in info.missing])
        yield f"{missing}: in a checkpoint, but there is no such directory"
    yield from _leftover_notes(info.leftovers)
    yield from map(safe, info.problems)


def partition_lines(info: PartitionInfo) -> Iterator[str]:
    """Yield the facts about a partition."""
    if info.state:
        yield f"state {info.state}"
    if info.topic_id:
        yield f"topic id {info.topic_id}"
    yield ", ".join(
        (
            f"log start offset {_known(info.log_start_offset)}",
            f"log end offset {_known(info.end_offset)}",
            *((number_words(info.records, "record"),) if info.records is not None else ()),
            f"{size_text(info.size)} in {number_words(len(info.segments), 'segment')}",
        )
    )
    said = {
        "high watermark": info.checkpoints.high_watermark,
        "recovery point": info.checkpoints.recovery_point,
        "log start checkpoint": info.checkpoints.log_start,
        "cleaned to": info.checkpoints.cleaner,
    }
    checkpoints = [f"{name} {offset}" for name, offset in said.items() if offset is not None]
    if checkpoints:
        yield ", ".join(checkpoints)
    if info.remote_start_offset is not None:
        yield f"in remote storage: offsets {offset_range(info.remote_start_offset, info.log_start_offset - 1)}"
    if info.leader_epochs:
        last = info.leader_epochs[-1]
        number = number_words(len(info.leader_epochs), "leader epoch")
        yield f"{number}, the last is {last.epoch} from offset {last.start_offset}"
    if info.producer_snapshots:
        last_snapshot = max(file.offset or 0 for file in info.producer_snapshots)
        yield f"{number_words(len(info.producer_snapshots), 'producer snapshot')}, the last at offset {last_snapshot}"
    if info.placement and info.placement.replicas is not None:
        yield _placed(info.placement, info.placement.replicas)
    for file in info.kraft_snapshots:
        yield f"KRaft snapshot {safe(file.name)}, {size_text(file.size)}"


def listed_notes(info: PartitionInfo) -> Iterator[str]:
    """Yield the remarks about a partition in a table of several, with its name."""
    folder = safe_path(os.path.basename(info.path))
    yield from (f"{folder}: {each}" for each in partition_notes(info))
    for segment in info.segments:
        yield from (f"{folder}/{file_name(segment)}: {each}" for each in log_notes(segment))


def partition_notes(info: PartitionInfo) -> Iterator[str]:
    """Yield what is left over or out of place in a partition directory."""
    if not info.segments:
        yield "no segments"
    yield from _leftover_notes(info.leftovers)
    if info.replaced:
        size = size_text(sum(file.size for file in info.replaced))
        listed = _listed([file.name for file in info.replaced])
        yield f"{number_words(len(info.replaced), 'file')} that .swap files replace, {size}: {listed}"
    if info.orphans:
        yield f"{_listed([file.name for file in info.orphans])}: an index without its .log"
    if info.unexpected:
        yield f"{_listed([file.name for file in info.unexpected])}: not a name that Kafka gives"
    if info.placement:
        yield from _placement_notes(info, info.placement)
    yield from map(safe, info.problems)


def short_words(partitions: Sequence[PartitionInfo]) -> str:
    """Return how many partitions lack in-sync replicas; nothing where none does, or no metadata tell."""
    short, low = replication_counts(partitions)
    if not short and not low:
        return ""
    below = f", {low} below min.insync.replicas" if low else ""
    return f"In the cluster: {number_words(short, 'partition')} under-replicated{below}."


def _placed(placement: Placement, replicas: tuple[int, ...]) -> str:
    leader = "none" if placement.leader is None else placement.leader
    brokers, isr = (", ".join(map(str, numbers)) for numbers in (replicas, placement.isr or ()))
    remarks = ""
    if placement.leader is not None and len(replicas) > 1:
        remarks = f", after it {'nobody' if placement.next_leader is None else placement.next_leader}"
    remarks += "; under-replicated" if placement.is_under_replicated else ""
    if placement.is_under_min_isr:
        remarks += f"; below min.insync.replicas ({placement.min_insync})"
    return f"in the cluster: replicas {brokers}; in sync {isr or 'none'}; leader {leader}{remarks}"


def _placement_notes(info: PartitionInfo, placement: Placement) -> Iterator[str]:
    if placement.stray:
        yield f"stray, a broker will set it aside: {placement.stray}"
        if placement.topic is None and placement.topic_id:
            yield f"the topic {safe(info.topic or '')} of the cluster has the id {placement.topic_id}"
    if placement.topic not in (None, info.topic):
        cut = "named in full" if info.state else "another name than the directory's"
        yield f"its topic id is that of {safe(placement.topic or '')} in the cluster, {cut}"


def log_notes(info: SegmentInfo) -> Iterator[str]:
    """Yield what is wrong with a .log."""
    if info.error:
        yield f"cannot be read: {info.error.strerror or info.error}"
    if info.has_zero_tail:
        yield f"zeros from byte {info.used_size} on: preallocated, or never written"
    for damage in info.damage[:NAMES_SHOWN]:
        yield f"byte {damage.position}: {safe(damage.text)}"
    if len(info.damage) > NAMES_SHOWN:
        yield f"{len(info.damage) - NAMES_SHOWN} more damaged places"


def preallocated(info: SegmentInfo) -> Iterator[str]:
    """Yield what is normal of the segment that is written to: for listings of segments."""
    kinds = [f".{kind}" for kind in info.preallocated_indexes]
    if kinds:
        are, them = ("is", "it") if len(kinds) == 1 else ("are", "them")
        yield f"{' and '.join(kinds)} {are} still preallocated: the broker trims {them} at its next start"


def _leftover_notes(files: Sequence[FileInfo]) -> Iterator[str]:
    for state, words in LEFTOVERS.items():
        found = [file for file in files if file.state == state]
        if found:
            size = sum(file.size for file in found)
            listed = _listed([file.name for file in found])
            yield f"{number_words(len(found), 'file')} {words}, {size_text(size)}: {listed}"


def _listed(found: Sequence[str]) -> str:
    return listed([safe_path(name) for name in found], NAMES_SHOWN)


def _known(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def by_need(partitions: list[PartitionInfo]) -> list[PartitionInfo]:
    """Return the damaged ones first."""
    return sorted(partitions, key=lambda info: not info.is_damaged)


def file_name(info: SegmentInfo) -> str:
    """Return the name of a segment's file; safe to print."""
    return safe_path(os.path.basename(info.path))
