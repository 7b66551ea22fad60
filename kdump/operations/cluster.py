"""Resurrect a cluster: into a new directory, or in place; the copies that are read are never changed by the former."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from kdump.change.apply import apply_plan
from kdump.change.change import Change
from kdump.change.copy_out import begin_copy, complete, copy_directories
from kdump.change.place import new_change, new_id
from kdump.change.plan import REMOVE, RENAME, REPLACE, Action, Operation, Plan
from kdump.cluster.choice import Chosen
from kdump.cluster.copies import Copy
from kdump.cluster.disks import Disk
from kdump.cluster.files import NewDirectory, checkpoint_files, copies_of, gets_metadata, meta_properties
from kdump.cluster.nodes import Node
from kdump.cluster.refusals import check_interrupted
from kdump.cluster.resurrection import Resurrection, metadata_disk, plan_resurrection
from kdump.cluster.wanted import Wanted
from kdump.disk import durable
from kdump.disk.durable import make_directories, make_directory, remove_tree
from kdump.disk.locks import GrowthWatch, check_not_locked
from kdump.disk.reading import is_directory
from kdump.disk.rights import ALL_RIGHTS, OWNER_ONLY, Rights
from kdump.errors import KdumpError, Problem, RefusedError
from kdump.formats import names
from kdump.formats.metadata_files import PartitionMetadata, format_partition_metadata
from kdump.formats.names import LIVE, STRAY, partition_dir_name
from kdump.formats.uuids import format_uuid, is_reserved_directory_id
from kdump.operations.safety import SafetyOptions, locked
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import NewContent
from kdump.topics.metadata_log import state_of_directory

UNSAFE_FILES = (names.CLEAN_SHUTDOWN, names.BOOTSTRAP_CHECKPOINT)
"""What goes from every log directory: with a mark of a clean shutdown a broker checks nothing, and trusts indexes of
which nobody knows; a default bootstrap.checkpoint is that of an empty cluster."""


class Resurrected(NamedTuple):
    """What was done: the log directories of the new cluster, and the changes that undo takes back (none of a copy)."""

    directories: tuple[NewDirectory, ...]
    changes: tuple[Change, ...] = ()


def lies_in(path: str, folder: str) -> bool:
    """Return whether a path is a folder or lies in it, through whatever links."""
    inner, outer = os.path.realpath(path), os.path.realpath(folder)
    return inner == outer or inner.startswith(os.path.join(outer, ""))


def random_id() -> bytes:
    """Return a random uuid of which Kafka's text has no dash in front, so that no tool takes it for an option."""
    while True:
        found = bytearray(secrets.token_bytes(16))
        found[6] = found[6] & 0x0F | 0x40
        found[8] = found[8] & 0x3F | 0x80
        if not format_uuid(bytes(found)).startswith("-") and not is_reserved_directory_id(bytes(found)):
            return bytes(found)


def plan(
    paths: Sequence[str],
    wanted: Wanted,
    *,
    now: int,
    in_place: bool,
    progress: Callable[[Copy], None] = lambda _copy: None,
) -> Resurrection:
    """Plan a resurrection; nothing is changed. Raises OSError, KdumpError."""
    found = plan_resurrection(
        paths,
        wanted,
        new_id=random_id,
        new_cluster_id=format_uuid(random_id()),
        now=now,
        keeps_directory_ids=in_place,
        progress=progress,
    )
    for disk in found.disks:
        partitions = [os.path.join(disk.path, name) for name in disk.directory.partition_names]
        found.refusals += check_interrupted(disk, partitions)
    return found


def directories_of(found: Resurrection, into: str | None) -> tuple[NewDirectory, ...]:
    """Return the log directories of the new cluster: one for each node in a new directory, else those there are."""
    if into is not None:
        return tuple(NewDirectory(node, os.path.join(into, f"node-{node.id}"), None) for node in found.nodes)
    return tuple(NewDirectory(node, disk.path, disk) for node in found.nodes for disk in node.disks)


def watch(found: Resurrection) -> GrowthWatch:
    """Watch all logs of all copies from now on."""
    copies = (copy for copies in found.at_hand.copies.values() for copy in copies)
    return GrowthWatch(segment.log_path for copy in copies for segment in PartitionLog(copy.path).segments)


def apply(found: Resurrection, into: str | None, now: int) -> Resurrected:
    """Make the new cluster in a new directory, or of what was given (None). Raises RefusedError, CopyError, OSError."""
    still = watch(found)
    return apply_in_place(found, now, still) if into is None else build(found, into, now, still)


def build(found: Resurrection, into: str, now: int, still: GrowthWatch) -> Resurrected:
    """Copy the chosen copies into a new directory, a log directory for each node, with the new metadata.

    What was given stays as it is. Raises RefusedError, CopyError, OSError.
    """
    _check_refusals(found)
    for disk in found.disks:
        check_not_locked(disk.path)
    into = os.path.abspath(into)
    make_directories(os.path.dirname(into))
    part = begin_copy(into, [disk.path for disk in found.disks])
    try:
        for node in found.nodes:
            _build_node(found, node, os.path.join(part, f"node-{node.id}"), now)
        still.check()
        check_built(found, directories_of(found, part))
    except BaseException:
        remove_tree(part)
        raise
    complete(part, into)
    return Resurrected(directories_of(found, into))


def _build_node(found: Resurrection, node: Node, path: str, now: int) -> None:
    make_directory(path)
    copies = copies_of(found, node)
    copy_directories([(copy.path, os.path.join(path, _live_name(copy))) for copy in copies], path)
    for copy, topic_id in found.at_hand.ids_to_write:
        if copy in copies:
            _write(os.path.join(path, _live_name(copy), names.PARTITION_METADATA), _partition_metadata(topic_id))
    for name, content in checkpoint_files(copies).items():
        _write(os.path.join(path, name), content)
    if node.id == found.controller:
        folder = os.path.join(path, names.CLUSTER_METADATA_DIR)
        _write_metadata(found, folder, now)
    # the one log directory that a node has in a new directory, where all its partitions are
    directory_id = node.directory_ids[metadata_disk(node).path]
    _write(os.path.join(path, names.META_PROPERTIES), meta_properties(found, node, directory_id, now))
    durable.sync_directory(path)


def _live_name(copy: Copy) -> str:
    return partition_dir_name(copy.name.topic, copy.name.partition)


def _partition_metadata(topic_id: bytes) -> bytes:
    return format_partition_metadata(PartitionMetadata(0, topic_id))


def _write(path: str, content: bytes, rights: Rights = ALL_RIGHTS) -> None:
    like = durable.file_in(os.stat(os.path.dirname(path)))
    durable.write_file(path, (content,), like, allow_other_owner=True, rights=rights)


def _write_metadata(found: Resurrection, folder: str, now: int) -> None:
    """Make the directory of the new metadata, with its snapshot, which has secrets, on the disk. Raises OSError."""
    make_directory(folder)
    _write(os.path.join(folder, found.snapshot_name), found.snapshot(now), OWNER_ONLY)
    durable.sync_directory(folder)


def _check_refusals(found: Resurrection) -> None:
    if found.refusals:
        first = found.refusals[0]
        raise RefusedError(f"{first.subject}: {first.reason}")


# --- in place --------------------------------------------------------------------------------------------------------


def apply_in_place(found: Resurrection, now: int, still: GrowthWatch) -> Resurrected:
    """Make the log directories those of the new cluster; what was there is kept, and undo brings it back.

    The old metadata, and copies that a node has twice, stay beside the others under names that a broker sets aside.
    Raises RefusedError, OSError.
    """
    _check_refusals(found)
    safety = SafetyOptions(applies=True, command="resurrect")
    directories = directories_of(found, None)
    with ExitStack() as stack:
        for disk in found.disks:
            stack.enter_context(locked(disk.path, [], safety))
        still.check()
        id_ = new_id(*(disk.path for disk in found.disks))
        changes = [_write_topic_id(copy, topic_id, id_) for copy, topic_id in found.at_hand.ids_to_write]
        changes += [_change(found, each.node, each.disk, id_, now) for each in directories if each.disk]
        check_built(found, directories)
    return Resurrected(directories, tuple(changes))


def _write_topic_id(copy: Copy, topic_id: bytes, id_: str) -> Change:
    content = _partition_metadata(topic_id)
    operation = Operation(REPLACE, names.PARTITION_METADATA, len(content), why="it was missing")
    plan = Plan(copy.path, (operation,), {operation.name: NewContent(content, len(content))})
    return apply_plan(plan, new_change(copy.path, None, id_), command="resurrect")


def _change(found: Resurrection, node: Node, disk: Disk, id_: str, now: int) -> Change:
    """Change the files and the names of directories in one log directory."""
    path = os.path.abspath(disk.path)
    operations = list(_renames(found, node, disk, now))
    contents = dict(checkpoint_files(copies_of(found, node, disk)))
    contents[names.META_PROPERTIES] = meta_properties(found, node, node.directory_id(disk), now)
    present = set(LogDirectory(path).files)
    operations += [_operation(REMOVE, path, name, 0) for name in UNSAFE_FILES if name in present]
    operations += [_operation(REPLACE, path, name, len(content)) for name, content in contents.items()]
    recipes = {name: NewContent(content, len(content)) for name, content in contents.items()}
    return apply_plan(Plan(path, tuple(operations), recipes), new_change(path, None, id_), command="resurrect")


def _operation(action: Action, path: str, name: str, size: int) -> Operation:
    try:
        info = os.stat(os.path.join(path, name), follow_symlinks=False)
    except FileNotFoundError:
        return Operation(action, name, size)
    return Operation(action, name, size, info.st_ino, info.st_size)


def _renames(found: Resurrection, node: Node, disk: Disk, now: int) -> Iterator[Operation]:
    """Set directories aside, and put the new metadata in its place.

    A broker leaves directories alone that end in -stray. The new metadata is written under such a name first.
    """
    path = os.path.abspath(disk.path)
    if disk.metadata_path:
        yield _rename(path, names.CLUSTER_METADATA_DIR, _aside(names.CLUSTER_METADATA_TOPIC, 0))
    if gets_metadata(found, node, disk):
        staged = _aside(names.CLUSTER_METADATA_TOPIC, 0)
        folder = os.path.join(path, staged)
        _write_metadata(found, folder, now)
        yield _rename(path, staged, names.CLUSTER_METADATA_DIR)
    for chosen in found.partitions:
        for copy in chosen.extra:
            if copy.disk == disk:
                yield _rename(path, os.path.basename(copy.path), _aside(*copy.key))
    for copy in copies_of(found, node, disk):
        if copy.name.state != LIVE:
            yield _rename(path, os.path.basename(copy.path), _live_name(copy))


def _aside(topic: str, partition: int) -> str:
    return partition_dir_name(topic, partition, secrets.token_hex(16), STRAY)


def _rename(path: str, source: str, name: str) -> Operation:
    return Operation(RENAME, name, inode=os.stat(os.path.join(path, source)).st_ino, source=source)


# --- afterwards ------------------------------------------------------------------------------------------------------


def check_built(found: Resurrection, directories: Sequence[NewDirectory]) -> None:
    """Read what was written as a broker will, and raise KdumpError unless every partition directory has its place."""
    homes = [each for each in directories if is_directory(os.path.join(each.path, names.CLUSTER_METADATA_DIR))]
    if not homes:
        raise KdumpError(f"{directories[0].path}: the new {names.CLUSTER_METADATA_DIR} is not there any more")
    home = homes[0]
    problems: list[Problem] = []
    log = PartitionLog(os.path.join(home.path, names.CLUSTER_METADATA_DIR))
    image = state_of_directory(log, problems.append).image
    if problems:
        raise KdumpError(f"{log.path}: what was written cannot be read again: {problems[0].text}")
    wanted = {chosen.name: chosen for chosen in found.partitions}
    for each in directories:
        for partition in LogDirectory(each.path).partitions():
            chosen = wanted.get(os.path.basename(partition.path))
            if chosen is not None:
                _check_place(image.topic(chosen.topic_id).partitions[chosen.partition], chosen, each, partition)


def _check_place(record: dict[str, object], chosen: Chosen, at: NewDirectory, partition: PartitionLog) -> None:
    replicas = record["replicas"]
    topic_id = partition.metadata.topic_id if partition.metadata else None
    if topic_id != chosen.topic_id or not isinstance(replicas, list) or at.node.id not in replicas:
        raise KdumpError(f"{partition.path}: the new metadata has no place for it, and a broker would set it aside")
