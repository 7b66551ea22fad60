"""Put what the cleaner makes of a partition in its place, or into another directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kdump.change import place
from kdump.change.apply import apply_staged, discard, make_place
from kdump.change.checks import SPARE_BYTES, check_changeable, check_room
from kdump.change.place import ChangeFiles, at_work
from kdump.clean.cleaning import Cleaning
from kdump.clean.plan import CLEANED, cleaning_plan
from kdump.clean.staging import Staging
from kdump.clean.state import PartitionState
from kdump.disk import durable
from kdump.disk.copies import copy_file, copy_status
from kdump.disk.durable import make_directories
from kdump.disk.reading import is_named
from kdump.errors import RefusedError
from kdump.formats import names
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.storage.checkpoints import Checkpoints, TopicPartition
from kdump.storage.directory import LogDirectory

Clean = Callable[[Staging], Cleaning]


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
        apply_staged(plan, files, command="compact", keep_old=keep_old)
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
    make_directories(directory)
    _check_room(state, clean, directory, makes_copies=True)
    with durable.filled_directory(target):
        cleaning = clean(Staging(partial(os.path.join, target))) if clean else None
        for name in _staying(state, cleaning):
            copy_file(os.path.join(source, name), os.path.join(target, name))
        copy_status(source, target)
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
