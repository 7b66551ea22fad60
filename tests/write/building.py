"""Small logs for the tests of writing, and what they look like on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.recovery.startup import Startup
from kdump.settings.writing import WritingSettings
from kdump.storage.decoded import BadBatch
from kdump.storage.open import open_log as read_log
from kdump.storage.records import Record
from kdump.write.log_writer import LogWriter
from kdump.write.record_source import Message

NOW = 1_700_000_000_000


class Clock:
    """A clock that tells what it is told."""

    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def new_log(folder: Path, clock: Clock | None = None, **config: Any) -> LogWriter:
    """An empty log."""
    name = str(folder / "orders-0")
    return LogWriter.create(
        name, WritingSettings(**config), clock=clock or Clock(), jitter=lambda limit: 0, durable=False
    )


def messages(count: int, *, size: int = 10, start: int = NOW) -> list[Message]:
    """Records with keys, a millisecond apart."""
    return [Message(b"v" * size, b"k%d" % number, start + number) for number in range(count)]


def sent(count: int = 1, *, timestamp: int = NOW, offset: int = 0, size: int = 5, **fields: Any) -> bytes:
    """A batch as a producer sends it."""
    records = [NewRecord(offset + number, timestamp, b"k", b"v" * size) for number in range(count)]
    return encode_batch(records, NewBatch(**fields))


def produced(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, **fields: Any) -> bytes:
    """A batch of an idempotent producer."""
    return sent(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **fields)


def fetched(offset: int, count: int = 1, *, leader_epoch: int = 0, **fields: Any) -> bytes:
    """A batch as a follower gets it."""
    return sent(count, offset=offset, leader_epoch=leader_epoch, **fields)


def files(folder: str | Path) -> dict[str, bytes]:
    """The content of every file below a directory."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def records(folder: str | Path) -> list[Record]:
    """The records of a partition directory; all must be sound."""
    found = []
    for record in read_log(str(folder)).records():
        assert isinstance(record, Record), record
        assert not isinstance(record, BadBatch)
        found.append(record)
    return found


def startup(**how: Any) -> Startup:
    """A broker's start at the time of these tests."""
    return Startup(NOW, **how)


def last_stable_offset(log: LogWriter) -> int:
    """Up to where no transaction is open."""
    return min((log.high_watermark, *log.states.open_txns))
