"""What an operator can do about segments that retention does not delete. Timestamps are never rewritten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from kdump.formats.batch import TimestampType
from kdump.formats.printable import command_line, shell_word
from kdump.retention.partition import HIGH_WATERMARK, Block, PartitionRetention
from kdump.settings.table import TIMESTAMP_AFTER_MAX_MS, TIMESTAMP_TYPE
from kdump.storage.timestamps import TimestampSource

BROKER = "HOST:9092"


class Advice(NamedTuple):
    """One thing to do: why and with what effect, and the commands for it, line by line."""

    text: str
    commands: tuple[str, ...] = ()


def advice_on(found: PartitionRetention) -> Iterator[Advice]:
    """Yield what can be done about the segments that block others in this partition; nothing where none does.

    What deletes no record comes first.
    """
    block = found.block
    if block is None:
        return
    if block.reason == HIGH_WATERMARK:
        yield from _on_high_watermark(found)
        return
    yield from _on_time_index(block)
    yield from _on_cause(found, block)
    yield from _on_records(found, block)
    yield from _on_size(found, block)


def _on_high_watermark(found: PartitionRetention) -> Iterator[Advice]:
    text = (
        f"Nothing at or above the high watermark ({found.high_watermark}) is deleted. It follows the slowest replica"
        " in sync: see which replicas are behind, and let them catch up."
    )
    yield Advice(text, (f"kafka-topics.sh --bootstrap-server {BROKER} --describe --under-replicated-partitions",))
    if not found.is_watermark_known:
        return
    yield Advice(
        "If this is a copy without its broker, or the checkpoint is out of date, use the log end offset.",
        (command_line("kdump", "retain", found.log.path, "--high-watermark", str(found.end_offset)),),
    )


def _on_time_index(block: Block) -> Iterator[Advice]:
    """Yield where the time that counts is not that of the records."""
    state, blocking = block.blocker, block.batch
    rebuild = command_line("kdump", "rebuild-index", state.segment.log_path, "--apply")
    if state.source == TimestampSource.MTIME and blocking is not None:
        yield Advice(
            f"The records have timestamps (up to {blocking.timestamp}), but the segment's time index is empty or"
            " missing, so the file's time counts. With the broker stopped, rebuild the index. Loses nothing.",
            (rebuild,),
        )
    elif state.source == TimestampSource.MTIME:
        yield Advice(
            "The records have no timestamps, so the file's time counts: it is that of the last write, or that of a copy"
            " which did not keep it (cp -p and rsync -t do)."
        )
    elif blocking is None or blocking.timestamp != state.largest_timestamp:
        yield Advice(
            f"No record has the timestamp {state.largest_timestamp} that the time index ends with. With the broker"
            " stopped, rebuild the index. Loses nothing.",
            (rebuild,),
        )


def _on_records(found: PartitionRetention, block: Block) -> Iterator[Advice]:
    """Advise to move the log start offset, online or offline."""
    if found.log.name is None:
        return
    offset = block.free_offset
    topic, partition = found.log.name.topic, found.log.name.partition
    request = json.dumps({"partitions": [{"topic": topic, "partition": partition, "offset": offset}], "version": 1})
    is_active = offset == found.end_offset
    waits = " The last segment goes once it has been rolled, by size or by segment.ms." if is_active else ""
    yield Advice(
        f"Delete the records before offset {offset} on all replicas, whatever their timestamps: they are gone for good."
        f" Segments that end before it go within log.retention.check.interval.ms"
        f" ({found.config.check_interval_ms}).{waits}",
        (
            f"echo {shell_word(request)} > delete.json",
            f"kafka-delete-records.sh --bootstrap-server {BROKER} --offset-json-file delete.json",
        ),
    )
    if not found.config.has_remote_storage:
        yield Advice(
            "Delete them on this replica alone, with the broker stopped. kdump keeps the originals: kdump undo.",
            (command_line("kdump", "retain", found.log.path, "--log-start-offset", str(offset), "--apply"),),
        )


def _on_size(found: PartitionRetention, block: Block) -> Iterator[Advice]:
    """Yield a size that happens to leave exactly what is young."""
    staying = sum(state.size for state in found.staying if state.base_offset >= block.free_offset)
    if found.log.name is None or not staying or found.config.has_remote_storage:
        return
    alter = _alter(found)
    limit = found.config.size_limit
    back = f"--add-config retention.bytes={limit}" if limit >= 0 else "--delete-config retention.bytes"
    yield Advice(
        f"Lower retention.bytes for a while: {staying} bytes are what follows offset {block.free_offset} in this"
        " partition. It deletes in every larger partition of the topic too. Set it back when the segments are gone.",
        (f"{alter} --add-config retention.bytes={staying}", f"{alter} {back}"),
    )


def _on_cause(found: PartitionRetention, block: Block) -> Iterator[Advice]:
    """Advise not to let such timestamps in again."""
    blocking = block.batch
    if blocking is None or blocking.timestamp <= found.now:
        return
    if blocking.is_append_time:
        yield Advice("The timestamps are those of a broker (LogAppendTime): its clock was wrong, so see to its clock.")
        return
    who = f"producer {blocking.producer_id}" if blocking.producer_id >= 0 else "the producer"
    wants = (
        f"{who} sends timestamps in {blocking.unit} where Kafka wants milliseconds"
        if blocking.unit
        else (f"the clock of {who} was ahead, or it sets timestamps of its own")
    )
    alter = _alter(found)
    yield Advice(
        f"Repair the cause, which loses nothing: {wants}. Brokers from 3.6 on can refuse timestamps of the future (from"
        " 4.0 on they refuse more than an hour), or give records the time at which they arrive; what is in the log"
        " stays as it is.",
        (
            f"{alter} --add-config {TIMESTAMP_AFTER_MAX_MS.name}=3600000",
            f"{alter} --add-config {TIMESTAMP_TYPE.name}={TimestampType.LOG_APPEND_TIME}",
        ),
    )


def _alter(found: PartitionRetention) -> str:
    """Return the command that changes the topic's configuration."""
    topic = shell_word(found.log.name.topic) if found.log.name else "TOPIC"
    return f"kafka-configs.sh --bootstrap-server {BROKER} --alter --entity-type topics --entity-name {topic}"
