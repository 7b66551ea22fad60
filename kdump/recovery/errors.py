"""The exceptions in which Kafka's log loading ends, or which it handles on its way."""

from __future__ import annotations

from kdump.errors import KdumpError

_COMMON = "org.apache.kafka.common"

CORRUPT_RECORD = f"{_COMMON}.errors.CorruptRecordException"
INVALID_RECORD = f"{_COMMON}.InvalidRecordException"
INVALID_TXN_STATE = f"{_COMMON}.errors.InvalidTxnStateException"
INVALID_OFFSET = f"{_COMMON}.errors.InvalidOffsetException"
OFFSET_OVERFLOW = f"{_COMMON}.errors.LogSegmentOffsetOverflowException"
STORAGE = f"{_COMMON}.errors.KafkaStorageException"
KAFKA = f"{_COMMON}.KafkaException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
ILLEGAL_STATE = "java.lang.IllegalStateException"
NULL_POINTER = "java.lang.NullPointerException"
NUMBER_FORMAT = "java.lang.NumberFormatException"
NO_SUCH_ELEMENT = "java.util.NoSuchElementException"
NO_SUCH_FILE = "java.nio.file.NoSuchFileException"
BUFFER_OVERFLOW = "java.nio.BufferOverflowException"

_TAKES_DIRECTORY_OFFLINE = frozenset({STORAGE, NO_SUCH_FILE})


class LoadError(KdumpError):
    """Loading a log fails: `exception` is Kafka's (with its package), the text its message, `file` the culprit's name.

    Most of these end the start-up of the whole broker; see `takes_directory_offline`.
    """

    def __init__(self, exception: str, text: str, file: str) -> None:
        super().__init__(text)
        self.exception = exception
        self.file = file
        self.batch: tuple[int, int] | None = None
        """Where in the file the batch is that cannot be taken, and its size, both in bytes, if it is one batch."""

    @property
    def takes_directory_offline(self) -> bool:
        """Whether the broker starts without this log directory (it takes the fault for the disk's)."""
        return self.exception in _TAKES_DIRECTORY_OFFLINE


class InvalidMarkerError(LoadError):
    """A control batch cannot be read: the recovery of a segment ends behind it, all else fails."""

    def __init__(self, text: str, file: str, row: int) -> None:
        super().__init__(INVALID_RECORD, text, file)
        self.row = row


class InvalidOffsetError(LoadError):
    """Offsets of a segment do not increase where an index entry is due; recoverLog empties the segment then."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(INVALID_OFFSET, text, file)


class OffsetOverflowError(LoadError):
    """A batch's last offset is too far from its segment's base offset: the segment is split."""

    def __init__(self, offset: int, base_offset: int, file: str) -> None:
        text = f"Detected offset overflow at offset {offset} in segment with base offset {base_offset}"
        super().__init__(OFFSET_OVERFLOW, text, file)
        self.base_offset = base_offset
