"""What a broker answers to an append that it refuses: one class for each of Kafka's exceptions, with Kafka's texts.

A batch that is damaged is refused with kdump.errors.CorruptRecordError, one that breaks the record format with
kdump.errors.InvalidRecordError.
"""

from __future__ import annotations

from kdump.errors import InvalidRecordError, KdumpError


class AppendError(KdumpError):
    """An append that a broker would refuse."""

    @property
    def exception(self) -> str:
        """The name of Kafka's exception: that of the class, but for its end."""
        return f"{type(self).__name__.removesuffix('Error')}Exception"


class RecordTooLargeError(AppendError):
    """A batch is larger than max.message.bytes."""


class RecordBatchTooLargeError(AppendError):
    """What one append would write is larger than segment.bytes."""


class InvalidTimestampError(AppendError):
    """A record's timestamp is too far from the broker's clock, or of a type that a producer must not set."""


class OffsetsOutOfOrderError(AppendError):
    """The offsets of a follower's append do not increase."""


class UnexpectedAppendOffsetError(AppendError):
    """A follower's append begins before the log end offset."""


class OutOfOrderSequenceError(AppendError):
    """The sequence number of an idempotent producer is not the one that is due."""


class InvalidProducerEpochError(AppendError):
    """The producer has been fenced by one of its id with a higher epoch."""


class InvalidTxnStateError(AppendError):
    """A producer writes outside of the transaction that it has open."""


class TransactionCoordinatorFencedError(AppendError):
    """A transaction marker comes from a coordinator that has been replaced."""


class UnsupportedForMessageFormatError(AppendError):
    """The message format of the topic has no room for what is to be written."""


class RollError(AppendError):
    """There is already a segment where the new one would begin."""

    exception = "KafkaException"


class OffsetOutOfRangeError(AppendError):
    """A log start offset or a high watermark would lie outside of the log, or a record beyond the last offset."""


class FencedLeaderEpochError(AppendError):
    """A leader of an epoch before that of the log would write."""


class MissingKeyError(InvalidRecordError):
    """A record without a key is for a compacted topic, whose cleaner would drop it."""
