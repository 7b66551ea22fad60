"""Take one batch apart, field by field, and find the flipped bit that explains its damage."""

from __future__ import annotations

import os
from typing import NamedTuple

from kdump.disk.durable import append_file
from kdump.disk.unpacked import temporary_place
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.mend.flipped_bit import FlippedBit, flipped_bit_in
from kdump.query.batch_fields import BatchFields, fields_at
from kdump.storage.lone_log import LoneLog
from kdump.storage.open import KafkaFile, Place
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment


class BatchApart(NamedTuple):
    """A batch, and the one flipped bit that explains why it fails its CRC, if there is one.

    `partition` is the directory in which it can be repaired; "" for a log without a partition.
    """

    path: str
    batch: BatchFields
    flipped: FlippedBit | None
    partition: str = ""


def has_batches(place: Place | LoneLog) -> bool:
    """Return whether it is one log."""
    return isinstance(place, LoneLog) or (isinstance(place, KafkaFile) and place.name.kind == names.LOG)


def batch_of(place: Place | LoneLog, position: int) -> BatchApart:
    """Return the batch at a byte of one log. Raises KdumpError, OSError."""
    if isinstance(place, LoneLog):
        return _alone(place, position)
    with Segment(place.path).open_log() as log:
        batch = fields_at(log, position)
    folder, name = os.path.split(place.path)
    flipped = None
    if not batch.is_valid:
        log_around = PartitionLog(os.path.abspath(folder))
        flipped = flipped_bit_in(log_around, name, batch.position, batch.position + batch.size)
    return BatchApart(place.path, batch, flipped, folder or os.curdir)


def _alone(lone: LoneLog, position: int) -> BatchApart:
    with lone.segment().open_log() as log:
        try:
            batch = fields_at(log, position)
        except KdumpError as error:
            raise KdumpError(str(error).replace(lone.path, lone.shown)) from None
        data = b"" if batch.is_valid else log.read(batch.position, batch.size)
    return BatchApart(lone.shown, batch, _flipped_alone(lone, batch, data) if data else None)


def _flipped_alone(lone: LoneLog, batch: BatchFields, data: bytes) -> FlippedBit | None:
    """Return the flipped bit of a batch that is put into a partition of its own."""
    with temporary_place(name=names.segment_file_name(lone.base_offset, ".log")) as path:
        append_file(path, (data,))
        found = flipped_bit_in(PartitionLog(os.path.dirname(path)), os.path.basename(path), 0, batch.size)
    return found and found._replace(position=found.position + batch.position)
