"""What a broker makes of the bootstrap.checkpoint beside the cluster's metadata log, which it reads at every start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from kdump.errors import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    KAFKA,
    RUNTIME,
    KdumpError,
    LoadError,
    Problem,
)
from kdump.formats.batch import MIN_SIZE_FIELD
from kdump.formats.control import KRAFT_VOTERS, LEADER_CHANGE, control_type_of
from kdump.formats.control import decode_value as decode_control
from kdump.formats.faults import BLOCK_FULL, UNDERSIZED
from kdump.formats.schemas.cluster_metadata import decode_value
from kdump.query.contents import Content, contents_in
from kdump.recovery.outcome import Failure
from kdump.releases import METADATA_VERSION
from kdump.storage.control_batches import is_control
from kdump.storage.scan import Run
from kdump.storage.segment import Segment

_FIRST_VERSION = bytes(2)
"""Kafka reads the values of control records as their first version, whatever they say of themselves."""


def bootstrap_failure(path: str) -> Failure | None:
    """Return what ends the process of a broker that reads this bootstrap.checkpoint; None where nothing does.

    (BootstrapDirectory, RecordsBatchReader.) Without the file it goes by its own settings. CRCs are not looked at, and
    an incomplete end is passed over. Raises OSError.
    """
    if not os.path.exists(path):
        return None
    if os.path.isdir(path):
        return Failure(KAFKA, "java.io.IOException: Is a directory", path, offline=False)
    try:
        has_version = METADATA_VERSION in list(_features(path))  # all are read
    except LoadError as error:
        return Failure(error.exception, str(error), error.file, offline=False)
    if has_version:
        return None
    text = (
        "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from the binary bootstrap"
        f" metadata file: {path}"
    )
    return Failure(RUNTIME, text, path, offline=False)


def _features(path: str) -> Iterator[str | None]:
    """Yield of each record the feature that it sets, None where it sets none. Raises LoadError, OSError."""
    segment = Segment(path)
    with segment.open_log() as log:
        position = 0
        while True:
            entry = log.entry_at(position, log.size)
            if entry.status == UNDERSIZED:
                text = f"Found record size {entry.size} smaller than minimum record overhead ({MIN_SIZE_FIELD}) in file"
                raise LoadError(CORRUPT_RECORD, f"{text} {path}.", path)
            if entry.status != BLOCK_FULL:
                return
            block = log.batch_at(position, entry.size)
            if not block.count[0]:
                text = f"Batch must contain at least one record; baseOffset = {block.base_offset[0]}"
                raise LoadError(ILLEGAL_ARGUMENT, text, path)
            for content in contents_in(segment, Run(block, 0, 1), partial(_broken, path)):
                yield _feature(path, content, is_control=is_control(block, 0))
            position += entry.size


def _broken(path: str, problem: Problem) -> None:
    raise LoadError(INVALID_RECORD, problem.text, path)


def _feature(path: str, content: Content, *, is_control: bool) -> str | None:
    what = "Unable to read control record" if is_control else "unable to deserialize record"
    try:
        if is_control:
            number = control_type_of(content.key)
            if not LEADER_CHANGE <= number <= KRAFT_VOTERS:
                raise KdumpError(f"control type {number}")
            decode_control(number, _FIRST_VERSION + (content.value or b"")[len(_FIRST_VERSION) :])
            return None
        record = decode_value(content.value or b"")
    except KdumpError as error:
        text = f"{what} at offset {content.offset}: {error}"
        raise LoadError(RUNTIME, text, path) from None
    return record.fields["name"] if record.name == "FeatureLevelRecord" else None
