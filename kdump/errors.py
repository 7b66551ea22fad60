"""Everything that the storage core raises.

Each message says what was found and, where a file is at hand, in which file and at which byte position. Where Kafka
has a text of its own for the fault (shared vocabulary of operators), the message is that text.
"""

from __future__ import annotations


class KdumpError(Exception):
    """Base of all errors that kdump raises on purpose; its text is fit to be shown to an operator."""


class CorruptRecordError(KdumpError):
    """The framing or the checksum of an entry of a log is wrong (Kafka: CorruptRecordException)."""


class InvalidRecordError(KdumpError):
    """The content of a batch breaks the record format although its frame holds (Kafka: InvalidRecordException)."""


class CodecError(KdumpError):
    """A compressed payload cannot be decompressed, or would grow past the limit."""


class CodecMissingError(CodecError):
    """The library that a codec needs is not installed: nothing is known of the payload."""


class CodecLimitError(CodecError):
    """The payload grows past the limit, or past the memory that there is: it may be sound."""


class UnknownCodecError(CodecError):
    """The attributes name a codec id that no Kafka release knows (5 to 7)."""


class CorruptIndexError(KdumpError):
    """An index file breaks its format (Kafka: CorruptIndexException)."""


class CorruptSnapshotError(KdumpError):
    """A producer snapshot breaks its format or its checksum (Kafka: CorruptSnapshotException)."""


class CheckpointError(KdumpError):
    """A checkpoint or another text file beside the segments cannot be parsed."""


class NameFormatError(KdumpError):
    """A file or directory name is not one that Kafka gives."""


class HoldsLogDirectoriesError(NameFormatError):
    """A directory is not a log directory but holds some, such as a broker's disks."""
