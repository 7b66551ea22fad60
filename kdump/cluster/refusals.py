"""What a resurrection is refused for, each with its way out: all of it at once, so that nobody has to come back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kdump.change.change import ChangeState
from kdump.change.journal import Changes
from kdump.change.unfinished import unfinished_in
from kdump.cluster.choice import Chosen
from kdump.cluster.disks import Disk
from kdump.cluster.metadata_copies import MetadataCopy, newest
from kdump.cluster.wanted import ALL_LOSSES, MetadataFrom, Refusal, Wanted
from kdump.disk.locks import lock_holder
from kdump.formats.config_resources import TOPIC_RESOURCE
from kdump.formats.printable import command_line
from kdump.formats.uuids import format_uuid
from kdump.formats.words import listed, number_words
from kdump.releases import (
    METADATA_VERSION,
    NEWEST_METADATA_VERSION,
    UNSTABLE_FEATURES,
    KafkaRelease,
    feature_levels,
    metadata_version_name,
    newest_metadata_version,
)
from kdump.settings.sources import TopicSettings, with_small_segments
from kdump.topics.cluster_image import ClusterImage

_SHOWN = 3


def check_directories(disks: Sequence[Disk]) -> Iterator[Refusal]:
    """Refuse directories that are in use, of several clusters, or given twice under two paths. Raises OSError."""
    for disk in disks:
        holder = lock_holder(disk.path)
        if holder is not None:
            if holder.is_kdump:
                reason = f"another kdump (process {holder.process}) is changing it"
                yield Refusal(disk.path, reason, "wait until it has ended")
                continue
            yield Refusal(disk.path, "a broker is running on it", "stop all brokers and controllers of the old cluster")
    clusters = {disk.cluster_id: disk.path for disk in reversed(disks) if disk.cluster_id is not None}
    if len(clusters) > 1:
        paths = " and ".join(sorted(clusters.values()))
        yield Refusal(paths, "log directories of different clusters", "give those of one cluster only")
    seen: dict[bytes, Disk] = {}
    for disk in disks:
        if disk.directory_id is not None and seen.setdefault(disk.directory_id, disk) is not disk:
            first, shown = seen[disk.directory_id].path, format_uuid(disk.directory_id)
            reason = f"has the directory.id of {first} ({shown}): one is a copy of the other"
            yield Refusal(disk.path, reason, "give one of the two")


def check_interrupted(disk: Disk, partitions: Iterable[str]) -> Iterator[Refusal]:
    """Refuse a log directory in which a change of itself, or of these partition directories, was interrupted.

    Raises OSError.
    """
    for path, text in unfinished_in(disk.path, partitions):
        yield Refusal(path, text, f"finish it, or take it back: {command_line('kdump', 'undo', path)}")
    for change in Changes(disk.path).of(disk.path):
        if change.state == ChangeState.INTERRUPTED:
            undo = command_line("kdump", "undo", disk.path, "--change", change.id, "--apply")
            yield Refusal(disk.path, f"change {change.id} ({change.command}) was interrupted", f"take it back: {undo}")


def check_metadata(copies: Sequence[MetadataCopy], taken: MetadataCopy | None, wanted: Wanted) -> Iterator[Refusal]:
    """Refuse to continue with older metadata than there is, or with what kdump cannot read."""
    if wanted.metadata not in (None, MetadataFrom.NOWHERE) and taken is None:
        yield Refusal(f"--metadata {wanted.metadata}", "no metadata can be read there", "name another log directory")
    best = newest(copies)
    for copy in copies:
        if copy.state is None or (taken is not None and copy.rank > taken.rank and not copy.is_sound):
            yield _damaged(copy)
    if taken is None:
        if wanted.metadata is None and not any(copy.state is None for copy in copies):
            yield from (_damaged(copy) for copy in copies)
        return
    state = taken.state
    assert state is not None
    if best is not None and best.is_sound and best.rank > taken.rank:
        end = best.state.end_offset if best.state else 0
        reason = f"{best.path} is newer: epoch {best.rank[0]}, log end {end}; this is {state.epoch}, {state.end_offset}"
        yield Refusal(taken.path, reason, f"leave --metadata out, or name {best.disk.path}")
    if state.newer_records:
        reason = f"{state.newer_records} of its records are of a newer release of Kafka than this kdump knows"
        yield Refusal(taken.path, reason, "use a newer kdump")


def _damaged(copy: MetadataCopy) -> Refusal:
    problem = copy.problems[0].text if copy.problems else "nothing can be read"
    verify = command_line("kdump", "verify", copy.path)
    way_out = f"see {verify}; without it: --metadata PATH of another one, or --metadata none"
    return Refusal(copy.path, f"this copy of the metadata is damaged: {problem}", way_out)


def check_partitions(partitions: Sequence[Chosen], wanted: Wanted) -> Iterator[Refusal]:
    """Refuse holes, and the loss of valid records that stand after damage."""
    missing = [chosen.name for chosen in partitions if chosen.best is None]
    if missing and not wanted.new_empty:
        reason = f"no PATH has a copy of {listed(missing, _SHOWN)}"
        yield Refusal(_count(missing), reason, "give more log directories; or let them start empty: --new-empty")
    lost = [chosen for chosen in partitions if chosen.lost_records]
    total = sum(chosen.lost_records for chosen in lost)
    if lost and wanted.accept_loss not in (total, ALL_LOSSES):
        for chosen in lost:
            yield _lost(chosen)
        names_ = listed([chosen.name for chosen in lost], _SHOWN)
        way_out = f"to lose them all the same: --accept-loss {total}"
        reason = f"the broker would cut {number_words(total, 'valid record')} after damage"
        yield Refusal(names_, reason, way_out)


def _lost(chosen: Chosen) -> Refusal:
    copy = max(chosen.copies, key=lambda copy: copy.end)
    end = chosen.best.valid_end if chosen.best else 0
    reason = f"the best copy ends at offset {end}; {copy.path} has valid batches up to {copy.end - 1} after damage"
    repair = command_line("kdump", "repair", copy.path)
    return Refusal(chosen.name, reason, f"repair that copy first: {repair} shows the ways")


def check_release(image: ClusterImage, release: KafkaRelease, properties: Mapping[str, str]) -> Iterator[Refusal]:
    """Refuse levels of features that the release does not support with these server.properties."""
    level = image.features.get(METADATA_VERSION, 0)
    unstable = properties.get(UNSTABLE_FEATURES, "").strip().lower() == "true"
    most = newest_metadata_version(release, with_unstable=unstable)
    if level > NEWEST_METADATA_VERSION:
        reason = f"level {level} is newer than kdump knows"
        yield Refusal(METADATA_VERSION, reason, "use a newer kdump")
    elif level > most:
        reason = f"the cluster is at {metadata_version_name(level)}, and Kafka {release.value} does not know that"
        yield Refusal(METADATA_VERSION, reason, "start the release that ran before, or a later one")
    known = feature_levels(release)
    for name, found in sorted(image.features.items()):
        if name != METADATA_VERSION and found > known.get(name, 0):
            reason = f"level {found} is in use, and Kafka {release.value} supports {known.get(name, 0)}"
            yield Refusal(name, reason, "start the release that ran before, or a later one")


def check_segment_bytes(image: ClusterImage, release: KafkaRelease) -> Iterator[Refusal]:
    """Refuse settings with which brokers of a release end at their start."""
    topics = ((topic.name, image.configs.get((TOPIC_RESOURCE, topic.name), {})) for topic in image.topics.values())
    small = list(with_small_segments(topics, release))
    if small:
        why = f"brokers of {release.value} end at their start where segment.bytes is below 1 MiB"
        reason = f"{listed(small, _SHOWN)}: {why}"
        yield Refusal(_count(small, "topic"), reason, "start the release that ran before (--kafka), and raise it there")


def check_topics(image: ClusterImage, wanted: Wanted) -> Iterator[Refusal]:
    """Refuse topics of which a part is elsewhere."""
    tiered = [
        topic.name
        for topic in image.topics.values()
        if TopicSettings.of(image.configs.get((TOPIC_RESOURCE, topic.name), {})).is_tiered
    ]
    if tiered and not wanted.has_remote_storage:
        reason = f"{listed(tiered, _SHOWN)}: a part of the log is in remote storage, which kdump does not see"
        way_out = "if the objects are there and the brokers reach them: --remote-storage"
        yield Refusal(_count(tiered, "topic"), reason, way_out)


def _count(names: Sequence[str], what: str = "partition") -> str:
    return number_words(len(names), what)
