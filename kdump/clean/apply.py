"""Put what the cleaner makes of a partition in its place, or into another directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kdump.change import place
from kdump.change.apply import apply_staged, discard, make_place
from kdump.change.checks import SPARE_BYTES, check_changeable, check_room
from kdump.change.guard import Allowance
from kdump.change.place import ChangeFiles, at_work
from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, Operation, Plan
from kdump.clean.cleaning import Cleaning, Group
from kdump.clean.staging import Staging
from kdump.clean.state import PartitionState
from kdump.disk import durable
from kdump.disk.copies import copy_file, copy_status
from kdump.disk.durable import make_directories
from kdump.disk.entered import entered
from kdump.disk.reading import is_named
from kdump.disk.rights import rights_of
from kdump.errors import RefusedError
from kdump.formats import names
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.names import segment_file_name
from kdump.storage.checkpoints import Checkpoints, TopicPartition
from kdump.storage.directory import LogDirectory

Clean = Callable[[Staging], Cleaning]

CLEANED, SWAP = f".{names.CLEANED}", f".{names.SWAP}"


def clean_in_place(state: PartitionState, clean: Clean, files: ChangeFiles, *, keep_old: bool) -> Cleaning:
    """Clean a partition, which nobody else may be using, where it is.

    `files`, in the same file system, are those of the change. Nothing is changed before everything new is on the disk.
    Raises OSError, KdumpError, RefusedError where there is not enough space.
    """
    _check_room(state, clean, os.path.dirname(os.path.abspath(state.log.path)))
    make_place(files.directory, state.log.path)
    with at_work(state.log.path, files.directory):
        return _cleaned_in_place(state, clean, files, keep_old=keep_old)


def _cleaned_in_place(state: PartitionState, clean: Clean, files: ChangeFiles, *, keep_old: bool) -> Cleaning:
    new = partial(files.path, place.NEW)
    try:
        cleaning = clean(Staging(new, CLEANED))
        durable.sync_directory(files.directory)
        plan = cleaning_plan(cleaning, new)
        check_changeable(plan)
    except BaseException:
        discard(files, state.log.path)
        raise
    if plan:
        apply_staged(plan, files, command="compact", keep_old=keep_old, allowance=Allowance(compacts=True))
    else:
        discard(files, state.log.path)
    return cleaning


def _check_room(state: PartitionState, clean: Clean | None, directory: str, *, makes_copies: bool = False) -> None:
    """Raise RefusedError where there is no room for what cleaning writes, and what stays if that is copied.

    Where there is room for as much as is read nothing else matters; only otherwise it is found out how much it will be.
    Raises OSError, KdumpError.
    """
    cleaned = sum(each.size for each in state.segments if each.base_offset < state.first_uncleanable_offset)
    staying = state.size - cleaned if makes_copies else 0
    try:
        check_room(SPARE_BYTES + staying + cleaned, directory)
    except RefusedError:
        if clean is None:
            raise
        paper = clean(Staging(None))
        staying = paper.state.size - paper.counts.size_before if makes_copies else 0
        check_room(SPARE_BYTES + staying + paper.counts.size_after, directory)


def check_output(directory: str) -> None:
    """Raise RefusedError where something is in the directory that is to be written. Raises OSError."""
    if is_named(directory) and os.listdir(directory):
        raise RefusedError(f"{directory}: not empty; give a directory that is new or empty")


def clean_into(state: PartitionState, clean: Clean | None, directory: str) -> Cleaning | None:
    """Make a partition directory of the same name in `directory`, cleaned unless `clean` is None.

    Everything that stays as it is is copied, with its times. Raises OSError, KdumpError.
    """
    source = os.path.abspath(state.log.path)
    target = os.path.join(directory, os.path.basename(source))
    rights = rights_of([source])
    make_directories(directory, rights=rights)
    _check_room(state, clean, directory, makes_copies=True)
    with entered(os.path.dirname(source)), durable.filled_directory(target):
        cleaning = clean(Staging(partial(os.path.join, target))) if clean else None
        for name in _staying(state, cleaning):
            copy_file(os.path.join(source, name), os.path.join(target, name))
        copy_status(source, target)
        durable.narrow(target, rights)
    durable.sync_directory(directory)
    return cleaning


def _staying(state: PartitionState, cleaning: Cleaning | None) -> Iterator[str]:
    """Yield the files of a partition that cleaning does not replace."""
    groups = cleaning.groups if cleaning else ()
    gone = {each.base_offset for group in groups for each in group.segments}
    bases = {group.base_offset for group in groups}
    for name, parsed in sorted(state.log.files.items()):
        keeps_snapshot = parsed.kind == names.PRODUCER_SNAPSHOT and parsed.offset in bases
        if parsed.kind in names.SEGMENT_KINDS and not parsed.state and parsed.offset in gone and not keeps_snapshot:
            continue
        yield name


def copy_directory_files(source: str, directory: str, cleaned: Sequence[Cleaning | PartitionState]) -> None:
    """Copy what a log directory has beside its partitions, with its checkpoints as they are for these partitions.

    Raises OSError, CheckpointError.
    """
    logs = LogDirectory(source)
    ends = {}
    for each in cleaned:
        state, end = (each.state, each.end_offset) if isinstance(each, Cleaning) else (each, each.checkpoint)
        if state.log.name is not None:
            ends[state.log.name.topic, state.log.name.partition] = end
    for name in logs.files:
        if name in (names.META_PROPERTIES, names.CLEAN_SHUTDOWN):
            target = os.path.join(directory, name)
            durable.remove_file(target)  # it is there from an earlier pass
            copy_file(os.path.join(source, name), target)
    for name, lines in Checkpoints.read(source).strict().lines.items():
        offsets: dict[TopicPartition, int | None] = dict(lines)
        if name == names.CLEANER_CHECKPOINT:
            offsets |= ends
        entries = [
            OffsetCheckpointEntry(*key, offset) for key, offset in offsets.items() if key in ends and offset is not None
        ]
        if entries or name in logs.files:
            durable.replace_file(os.path.join(directory, name), format_offset_checkpoint(entries), durable=True)
    durable.sync_directory(directory)


def cleaning_plan(cleaning: Cleaning, new: Callable[[str], str]) -> Plan:
    """Return the changes to the partition directory, step by step as Kafka's cleaner makes them.

    Group by group: the new segment's files come as .cleaned, are renamed to .swap, the old segments go, and the .swap
    files get their names. A broker that starts in between finishes the group or undoes it; kdump finishes all of them.
    The checkpoint follows last. `new` gives the path of a new file by its name. Raises OSError.
    """
    path = os.path.abspath(cleaning.state.log.path)
    operations = [operation for group in cleaning.groups for operation in _replacement(path, group, new)]
    return Plan(path, (*operations, *_checkpoint(cleaning)), {})


def _checkpoint(cleaning: Cleaning) -> Iterator[Operation]:
    """Yield the new checkpoint, if it is another one; so it is where the old one does not count."""
    state = cleaning.state
    if cleaning.end_offset != state.checkpoint and state.log.name is not None:
        old = -1 if state.checkpoint is None else state.checkpoint
        why = "up to there the log is clean"
        yield Operation(CHECKPOINT, names.CLEANER_CHECKPOINT, cleaning.end_offset, old_size=old, why=why)


def _replacement(path: str, group: Group, new: Callable[[str], str]) -> Iterator[Operation]:
    written = [segment_file_name(group.base_offset, f".{file.kind}") for file in group.files]
    inodes = {name: os.stat(new(name + CLEANED)).st_ino for name in written}
    sizes = {name: file.size for name, file in zip(written, group.files, strict=True)}
    for name in written:
        why = "what the cleaner makes of these segments"
        yield Operation(REPLACE, name + CLEANED, sizes[name], why=why)
    for name in written:
        why = "the new segment is complete"
        yield Operation(RENAME, name + SWAP, sizes[name], inodes[name], source=name + CLEANED, why=why)
    for facts in group.segments:
        for name in _old_files(path, group, facts.base_offset):
            info = os.stat(os.path.join(path, name), follow_symlinks=False)
            yield Operation(REMOVE, name, 0, info.st_ino, info.st_size, why="the new segment takes its place")
    for name in written:
        yield Operation(RENAME, name, sizes[name], inodes[name], source=name + SWAP, why="the old segments are gone")


def _old_files(path: str, group: Group, base_offset: int) -> Iterator[str]:
    """Yield the files of a segment that goes; with its base offset goes its producer snapshot."""
    for kind in names.SEGMENT_KINDS:
        if kind == names.PRODUCER_SNAPSHOT and base_offset == group.base_offset:
            continue
        name = segment_file_name(base_offset, f".{kind}")
        if is_named(os.path.join(path, name)):
            yield name
