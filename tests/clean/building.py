"""Small compacted partitions, and passes of the cleaner over them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import kdump
from kdump.change.apply import apply_plan
from kdump.change.place import new_change
from kdump.clean.apply import clean_in_place
from kdump.clean.cleaning import Cleaning, clean
from kdump.clean.staging import Staging
from kdump.clean.state import PartitionState, examine_partition
from kdump.formats import names
from kdump.formats.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.mend.as_broker import plan_recovery
from kdump.recovery.startup import Startup
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.loading import LoadingSettings
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.records import Batch, Record

NOW = 1_000_000
DAY = 86_400_000
CONFIG = CleaningSettings(
    min_cleanable_ratio=0.0,
    map_bytes=24 * 1000,
    keeps_batch_at_high_watermark=False,  # as up to 4.3
    loading=LoadingSettings(index_interval_bytes=100),
)
Pair = tuple[bytes | None, bytes | None]


def name(base_offset: int, kind: str) -> str:
    """The name of a segment's file."""
    return f"{base_offset:020d}.{kind}"


def batch(offset: int, *pairs: Pair, timestamp: int = 1000, **fields: Any) -> bytes:
    """A v2 batch of these keys and values, from `offset` on."""
    records = [NewRecord(offset + at, timestamp + at, key, value) for at, (key, value) in enumerate(pairs)]
    return encode_batch(records, NewBatch(**{"leader_epoch": 0, **fields}))


def in_txn(offset: int, producer_id: int, *pairs: Pair, sequence: int = 0, **fields: Any) -> bytes:
    """A batch of a transaction."""
    attributes = TRANSACTIONAL | fields.pop("attributes", 0)
    return batch(
        offset,
        *pairs,
        **{
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": sequence,
            "attributes": attributes,
            **fields,
        },
    )


def marker(
    offset: int,
    producer_id: int,
    *,
    commit: bool = True,
    timestamp: int = 1000,
    epoch: int = 0,
    horizon: int | None = None,
) -> bytes:
    """The end of a transaction; `horizon` (ms) is the delete horizon that an earlier pass gave it."""
    record = NewRecord(offset, timestamp, b"\0\0\0\1" if commit else b"\0\0\0\0", b"\0\0\0\0\0\0")
    attributes = TRANSACTIONAL | CONTROL | (0 if horizon is None else DELETE_HORIZON)
    return encode_batch([record], NewBatch(attributes, producer_id, epoch, -1, 0, base_timestamp=horizon))


def build(
    folder: Path,
    segments: Mapping[int, Sequence[bytes]],
    *,
    high_watermark: int | None = None,
    checkpoint: int | None = None,
    modified: Mapping[int, int] | None = None,
    now: int = NOW,
    config: CleaningSettings = CONFIG,
) -> Path:
    """A partition directory with these batches by base offset, and what a broker has beside them after a clean close.

    `modified` are the times (ms) of the .log files; 1000 unless given.
    """
    partition = folder / "users-0"
    partition.mkdir(parents=True)
    for base_offset, batches in segments.items():
        (partition / name(base_offset, "log")).write_bytes(b"".join(batches))
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    _, plan = plan_recovery(kdump.open_log(str(partition)), Startup(now, config=config.loading))
    assert plan is not None
    apply_plan(plan, new_change(str(folder / "users-0")), keep_old=False)
    for base_offset in segments:
        at = (modified or {}).get(base_offset, 1000) * 1_000_000
        os.utime(partition / name(base_offset, "log"), ns=(at, at))
    write_checkpoint(folder, names.REPLICATION_CHECKPOINT, high_watermark)
    write_checkpoint(folder, names.CLEANER_CHECKPOINT, checkpoint)
    return partition


def write_checkpoint(folder: Path, file: str, offset: int | None) -> None:
    """Let a checkpoint name the partition, or no partition."""
    (folder / file).write_text("0\n0\n" if offset is None else f"0\n1\nusers 0 {offset}\n")


def checkpoint_of(partition: Path) -> int | None:
    """What the cleaner's checkpoint says."""
    return LogDirectory(str(partition.parent)).checkpoint(names.CLEANER_CHECKPOINT).get(("users", 0))


def state_of(partition: Path, config: CleaningSettings = CONFIG, now: int = NOW) -> PartitionState:
    """What the cleaner knows of the partition."""
    log = kdump.open_log(str(partition))
    return examine_partition(log, Checkpoints.read(str(partition.parent)).of(log.name), config, now)


def dry_run(partition: Path, config: CleaningSettings = CONFIG, now: int = NOW, *, exact: bool = False) -> Cleaning:
    """A pass on paper."""
    return clean(state_of(partition, config, now), config, now, Staging(None), compares_keys=exact)


def clean_once(
    partition: Path, config: CleaningSettings = CONFIG, now: int = NOW, *, keep_old: bool = False, exact: bool = False
) -> Cleaning:
    """A pass in place."""
    folder = new_change(str(partition))
    return clean_in_place(
        state_of(partition, config, now),
        lambda staging: clean(state_of(partition, config, now), config, now, staging, compares_keys=exact),
        folder,
        keep_old=keep_old,
    )


def records_in(partition: Path) -> list[Record]:
    """All records, those of control batches included."""
    found = list(kdump.open_log(str(partition)).records())
    assert all(isinstance(each, Record) for each in found), found
    return [each for each in found if isinstance(each, Record)]


def contents(partition: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of all records."""
    return [(record.offset, record.key, record.value) for record in records_in(partition)]


def batches_in(partition: Path) -> list[Batch]:
    """All batches."""
    found = list(kdump.open_log(str(partition)).batches())
    assert all(isinstance(each, Batch) for each in found), found
    return [each for each in found if isinstance(each, Batch)]


def put_aborted(partition: Path, base_offset: int, txns: Iterable[AbortedTxn]) -> None:
    """Write a segment's transaction index."""
    (partition / name(base_offset, "txnindex")).write_bytes(encode_aborted_txns(txns))


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a directory and what is in them."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
