"""What a broker refuses is refused with its reason, and the log is what it was before."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import CodecError, CorruptRecordError, InvalidRecordError, KdumpError
from kdump.formats.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.formats.checksums import crc32c
from kdump.formats.codecs import GZIP, LZ4, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.settings.writing import WritingSettings
from kdump.write import errors
from kdump.write.incoming import AppendOrigin
from kdump.write.log_writer import LogWriter
from kdump.write.packing import pack_marker
from kdump.write.record_source import Message
from tests.write.building import NOW, Clock, fetched, files, messages, new_log, produced, records, sent

Append = Callable[[LogWriter], object]


def leader(data: bytes, **how: Any) -> Append:
    return lambda log: log.append_as_leader(data, **how)


def follower(*batches: bytes) -> Append:
    return lambda log: log.append_as_follower(b"".join(batches))


def header(data: bytes, at: int, form: str, value: int) -> bytes:
    """The batch with another field in its header, and the CRC that belongs to it."""
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def broken(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


RECORD = NewRecord(0, NOW, b"k", b"v")
OLD = encode_message(RECORD, 1)

LEADER: dict[str, tuple[Append, type[KdumpError], str, dict[str, Any]]] = {
    "crc": (leader(broken(sent())), CorruptRecordError, "Record is corrupt", {}),
    "size field": (leader(b"\0" * 80), CorruptRecordError, "less than the minimum record overhead", {}),
    "magic": (leader(sent()[:16] + b"\3" + sent()[17:]), CorruptRecordError, "Invalid magic found in record: 3", {}),
    "base offset": (leader(sent(offset=4)), InvalidRecordError, "should be 0, but it is 4", {}),
    "offset range": (leader(header(sent(), 23, ">i", -1)), InvalidRecordError, "invalid offset range", {}),
    "count of 0": (leader(header(sent(), 57, ">i", 0)), InvalidRecordError, "Invalid reported count", {}),
    "other count": (leader(header(sent(2), 57, ">i", 1)), InvalidRecordError, "Inconsistent batch offset range", {}),
    "control": (leader(sent(attributes=CONTROL)), InvalidRecordError, "not allowed to write control records", {}),
    "no sequence": (
        leader(sent(producer_id=4, producer_epoch=0)),
        InvalidRecordError,
        "Invalid sequence number -1 in record batch with producerId 4",
        {},
    ),
    "two batches": (leader(sent() + sent()), InvalidRecordError, "more than one batch", {}),
    "two formats": (leader(OLD + sent()), InvalidRecordError, "not the same as the first batch's magic", {}),
    "two wrappers": (
        leader(encode_wrapper([RECORD], 1, GZIP) * 2),
        InvalidRecordError,
        "more than one batch",
        {"record_version": 1},
    ),
    "empty wrapper": (
        leader(encode_message(RECORD._replace(value=b""), 1, GZIP)),
        KdumpError,
        "null value|premature|end|ended|inner",
        {"record_version": 1},
    ),
    "payload": (leader(header(sent(), 21, ">h", ZSTD)), CodecError, "zstd|Zstd|ZSTD|decompress|frame", {}),
    "max.message.bytes": (
        leader(sent(size=100)),
        errors.RecordTooLargeError,
        "exceeds the maximum configured value of 90",
        {"max_message_bytes": 90},
    ),
    "max.message.bytes, once it is rebuilt": (
        leader(sent(40, attributes=GZIP, size=40)),
        errors.RecordTooLargeError,
        "exceeds the maximum configured value of 500",
        {"max_message_bytes": 500, "codec": 0},
    ),
    "segment.bytes": (
        leader(sent(size=100)),
        errors.RecordBatchTooLargeError,
        "exceeds the maximum configured segment size of 150",
        {"segment_bytes": 150},
    ),
    "future": (leader(sent(timestamp=NOW + 3_600_001)), errors.InvalidTimestampError, "is out of range", {}),
    "past": (
        leader(sent(timestamp=NOW - 101)),
        errors.InvalidTimestampError,
        f"within \\[{NOW - 100}, ",
        {"timestamp_before_max_ms": 100},
    ),
    "append time": (
        leader(sent(attributes=LOG_APPEND_TIME)),
        errors.InvalidTimestampError,
        "should not set timestamp type to LogAppendTime",
        {"is_append_time": True},
    ),
    "no key": (
        lambda log: log.append([Message(b"v", None, NOW)]),
        InvalidRecordError,
        "Compacted topic cannot accept message without key",
        {"compacted": True},
    ),
    "transaction in v1": (
        leader(produced(0, attributes=TRANSACTIONAL)),
        errors.UnsupportedForMessageFormatError,
        "Transactional records cannot be used with magic version 1",
        {"record_version": 1},
    ),
    "producer in v0": (
        leader(produced(0)),
        errors.UnsupportedForMessageFormatError,
        "Idempotent records cannot be used with magic version 0",
        {"record_version": 0},
    ),
    "headers in v1": (
        leader(encode_batch([RECORD._replace(headers=((b"h", b"x"),))])),
        errors.UnsupportedForMessageFormatError,
        "Magic v1 does not support record headers",
        {"record_version": 1},
    ),
    "zstd in v1": (
        leader(OLD),
        errors.UnsupportedForMessageFormatError,
        "ZStandard compression is not supported for magic 1",
        {"record_version": 1, "codec": ZSTD},
    ),
    "leader epoch": (leader(sent(), leader_epoch=2), errors.FencedLeaderEpochError, "Leader epoch 2 is lower", {}),
    "out of order": (
        follower(fetched(20, leader_epoch=3), fetched(20, leader_epoch=3)),
        errors.OffsetsOutOfOrderError,
        "Out of order offsets found in append to orders-0: 20, 20",
        {},
    ),
    "before the end": (
        follower(fetched(9, leader_epoch=3)),
        errors.UnexpectedAppendOffsetError,
        "First offset 9 is less than the next offset 10",
        {},
    ),
    "before the end, v1": (
        follower(encode_message(RECORD._replace(offset=4), 1)),
        errors.UnexpectedAppendOffsetError,
        "last offset of the first batch 4 is less than the next offset 10",
        {},
    ),
    "follower's crc": (follower(broken(fetched(10))), CorruptRecordError, "Record is corrupt", {}),
    "high watermark": (
        lambda log: log.advance_log_start(11),
        errors.OffsetOutOfRangeError,
        "larger than the high watermark 10",
        {},
    ),
    "elected again": (lambda log: log.become_leader(2), errors.FencedLeaderEpochError, "Leader epoch 2 is lower", {}),
}


@pytest.mark.parametrize("name", LEADER)
def test_refused(name: str, tmp_path: Path) -> None:
    append, kind, text, config = LEADER[name]
    log = new_log(tmp_path, **config)
    if not config:
        log.append(messages(10), leader_epoch=3)
    before, state = files(tmp_path), (log.end_offset, log.active.mark())
    with pytest.raises(kind, match=text):
        append(log)
    assert (log.end_offset, log.active.mark()) == state
    assert files(tmp_path) == before
    log.close()


PRODUCER: dict[str, tuple[Append, type[errors.AppendError], str]] = {
    "gap": (leader(produced(7, epoch=1)), errors.OutOfOrderSequenceError, r"7 \(incoming .*, 4 \(current end"),
    "again, but in other batches": (leader(produced(3, epoch=1)), errors.OutOfOrderSequenceError, r"3 \(incoming"),
    "old epoch": (leader(produced(0, epoch=0)), errors.InvalidProducerEpochError, "is 0, which is smaller"),
    "new epoch": (leader(produced(3, epoch=2)), errors.OutOfOrderSequenceError, r"new epoch .* 2 \(request epoch\), 3"),
    "outside of its transaction": (
        leader(produced(1, producer=8, epoch=0)),
        errors.InvalidTxnStateError,
        "Expected transactional write from producer 8",
    ),
    "marker of an old epoch": (
        leader(pack_marker(7, 0, NOW, is_commit=True), origin=AppendOrigin.COORDINATOR),
        errors.InvalidProducerEpochError,
        "is 0, which is smaller than the last seen epoch 1",
    ),
    "marker of an old coordinator": (
        leader(pack_marker(9, 0, NOW, is_commit=True, coordinator_epoch=4), origin=AppendOrigin.COORDINATOR),
        errors.TransactionCoordinatorFencedError,
        r"4 \(zombie\), 5 \(current\)",
    ),
}


@pytest.mark.parametrize("name", PRODUCER)
def test_producer_is_refused(name: str, tmp_path: Path) -> None:
    append, kind, text = PRODUCER[name]
    log = new_log(tmp_path)
    log.append_as_leader(produced(0, 2, epoch=1))
    log.append_as_leader(produced(2, 3, epoch=1))
    log.append_as_leader(produced(0, producer=8, attributes=TRANSACTIONAL))
    log.append_as_leader(produced(0, producer=9, attributes=TRANSACTIONAL))
    log.end_transaction(9, 0, is_commit=True, coordinator_epoch=5)
    before, state = files(tmp_path), log.end_offset
    with pytest.raises(kind, match=text):
        append(log)
    assert (files(tmp_path), log.end_offset) == (before, state)
    log.append_as_leader(produced(5, epoch=1))
    assert log.end_offset == state + 1


@pytest.mark.parametrize(
    "append",
    [leader(sent(3)), follower(fetched((1 << 63) - 2, 2)), lambda log: log.append(messages(3))],
    ids=["leader", "follower", "packed"],
)
def test_beyond_the_last_offset(append: Append, tmp_path: Path) -> None:
    start = (1 << 63) - 3
    log = LogWriter.create(
        str(tmp_path / "orders-0"), WritingSettings(), start_offset=start, clock=Clock(), durable=False
    )
    before = files(tmp_path)
    with pytest.raises(errors.OffsetOutOfRangeError, match="no offsets left"):
        append(log)
    assert (files(tmp_path), log.end_offset) == (before, start)
    log.append(messages(2))
    assert [each.offset for each in records(log.path)] == [start, start + 1]


def test_names_of_kafka() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    found = {each("").exception for each in classes if issubclass(each, errors.AppendError)}
    assert {"RecordTooLargeException", "OutOfOrderSequenceException", "InvalidProducerEpochException"} <= found


def test_what_is_no_whole_batch_is_left_out(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.append_as_leader(sent()[:50]).size == 0
    assert log.append_as_leader(b"").size == 0
    info = log.append_as_follower(fetched(0) + fetched(1)[:40])
    assert (info.first_offset, info.last_offset, log.end_offset) == (0, 0, 1)


def test_header_may_be_wrong_where_records_are_right(tmp_path: Path) -> None:
    """The max timestamp of a header is made right, and bits that nobody knows are dropped where it is."""
    log = new_log(tmp_path, Clock())
    log.append_as_leader(header(header(sent(), 35, ">q", 5), 21, ">h", 0x80))
    log.close()
    expected = encode_batch([RECORD._replace(value=b"v" * 5)], NewBatch(leader_epoch=0))
    assert (Path(log.path) / f"{0:020}.log").read_bytes() == expected


def test_io_error_undoes_the_append_and_ends_the_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(tmp_path)
    log.append(messages(3))
    before = files(tmp_path)

    def fail(*args: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", fail)
        with pytest.raises(OSError, match="No space left"):
            log.append(messages(3))
    assert files(tmp_path) == before
    with pytest.raises(KdumpError, match="failed in an earlier write"):
        log.append(messages(1))
    with pytest.raises(KdumpError, match="failed in an earlier write"):
        log.close()
    log.close(clean=False)
    with pytest.raises(KdumpError, match="is closed"):
        log.append(messages(1))


@pytest.mark.parametrize("codec", [GZIP, LZ4])
def test_wrapper_with_a_corrupt_message(codec: int, tmp_path: Path) -> None:
    from kdump.formats.codecs import compress

    inner = bytearray(encode_message(RECORD, 1) + encode_message(RECORD._replace(offset=1), 1))
    inner[-1] ^= 1
    wrapper = encode_message(NewRecord(1, NOW, None, compress(codec, bytes(inner), magic=1)), 1, codec)
    log = new_log(tmp_path, record_version=1)
    with pytest.raises(InvalidRecordError, match="is corrupt"):
        log.append_as_leader(wrapper)
    assert log.end_offset == 0
