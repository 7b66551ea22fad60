"""What an export is asked for, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kdump.errors import KdumpError, check_number, check_several, check_truths, check_type, check_word
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.query.selection import Selection
from kdump.txns.isolation_level import Isolation

if TYPE_CHECKING:
    from kdump.columns.decoding import TopicColumns

TOPIC, PARTITION, DATE = LEVELS = ("topic", "partition", "date")
NO_CODEC = "none"


class ExportFormat(StrEnum):
    """The format of the files of an export."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"


CODECS: Mapping[str, tuple[str, ...]] = {
    ExportFormat.PARQUET: ("zstd", "snappy", "gzip", "lz4", "brotli", NO_CODEC),
    ExportFormat.JSONL: (NO_CODEC, "gzip", "zstd"),
    ExportFormat.CSV: (NO_CODEC, "gzip", "zstd"),
}
"""The codecs of each format, the one that is taken where nothing is said first."""

DEFAULT_COLUMNS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "transaction",
)

_SUFFIXES = {NO_CODEC: "", "gzip": ".gz", "zstd": ".zst"}


class ExportOptionError(KdumpError):
    """Options of an export that do not go together."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is written and how.

    `by` are the levels of directories (of LEVELS), the outermost first. `columns` are of kdump.columns.RECORD_FIELDS;
    those that the directories tell are not in the files. `selection` bounds offsets and times,
    `isolation` leaves out what a consumer of that level does not get. With `control` the
    markers of Kafka's own are records too; with `skips_damage` an export without what cannot be read counts as whole.
    `decoding` are the topics whose keys and values are decoded by their schemas.
    `limit` bounds the bytes that a batch may decompress to. `target_bytes` is how many bytes of log go into a file at
    most, None for a file or several of each segment.
    """

    format: str = ExportFormat.PARQUET
    by: tuple[str, ...] = (TOPIC, PARTITION)
    codec: str = ""
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    selection: Selection = field(default_factory=Selection)
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    control: bool = False
    skips_damage: bool = False
    use_indexes: bool = True
    limit: int = DEFAULT_LIMIT
    decoding: Mapping[str, TopicColumns] | None = None
    target_bytes: int | None = None

    def __post_init__(self) -> None:
        """Raise ExportOptionError, ValueError, TypeError."""
        _check_words("format", (self.format,), tuple(ExportFormat))
        check_number("limit", self.limit, 1)
        check_number("target_bytes", self.target_bytes, 1, may_be_none=True)
        check_truths(control=self.control, skips_damage=self.skips_damage, use_indexes=self.use_indexes)
        check_type("codec", self.codec, str)
        check_type("selection", self.selection, Selection)
        self.selection.check()
        check_word("isolation", self.isolation, Isolation)
        check_type("decoding", self.decoding, Mapping, may_be_none=True)
        check_several("columns", self.columns, str)
        check_several("by", self.by, str)
        _check_words("level", self.by, LEVELS)
        if len(set(self.columns)) < len(self.columns):
            raise ExportOptionError("a column is named twice")
        if self.codec and self.codec not in CODECS[self.format]:
            raise ExportOptionError(f"{self.format} has the codecs {', '.join(CODECS[self.format])}, not {self.codec}")
        if not self.file_columns:
            raise ExportOptionError("no column is left for the files: the directories have all that are asked for")

    @property
    def effective_codec(self) -> str:
        """The codec in use."""
        return self.codec or CODECS[self.format][0]

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns of the files."""
        return tuple(name for name in self.columns if name not in self.by)

    @property
    def suffix(self) -> str:
        """How the names of the files end."""
        return ".parquet" if self.format == ExportFormat.PARQUET else f".{self.format}{_SUFFIXES[self.effective_codec]}"

    def as_json(self) -> dict[str, Any]:
        """Return all that the rows and the files depend on."""
        chosen = self.selection
        target = {} if self.target_bytes is None else {"targetFileSize": self.target_bytes}
        return {
            **target,
            "format": self.format,
            "by": list(self.by),
            "codec": self.effective_codec,
            "columns": list(self.columns),
            "startOffset": chosen.start_offset,
            "stopOffset": chosen.stop_offset,
            "since": chosen.since,
            "until": chosen.until,
            "isolation": self.isolation,
            "control": self.control,
            "maxDecompressedSize": self.limit,
            "decoding": {topic: each.description for topic, each in (self.decoding or {}).items()},
        }


def _check_words(kind: str, words: tuple[str, ...], known: tuple[str, ...]) -> None:
    for word in words:
        if word not in known:
            raise ExportOptionError(f"{word!r} is not a {kind}: there are {', '.join(known)}")
    if len(set(words)) < len(words):
        raise ExportOptionError(f"a {kind} is named twice")
