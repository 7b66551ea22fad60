"""The columns that records can be read as: their names, and which of the kernels' columns each is made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from kdump.errors import KdumpError
from kdump.formats.close_names import closest
from kdump.named_tuples import NamedTuple

KEY, VALUE, HEADERS = "key", "value", "headers"
TRANSACTION = "transaction"
LABELS = ("topic", "partition", "path")
JSON_FIELD = {b"kdump": b"json"}
"""The metadata of a column whose texts are JSON."""

MAX_MS = (1 << 63) // 1000 - 1
"""Beyond it a timestamp has no microseconds."""

ATTRIBUTES, MAGIC = "batch.attributes", "batch.magic"
FLAGS = (ATTRIBUTES, MAGIC)

RECORD_NEEDS: dict[str, tuple[str, ...]] = {
    "topic": (),
    "partition": (),
    "offset": ("offset",),
    "timestamp": ("timestamp",),
    "timestamp_us": ("timestamp",),
    "timestamp_type": FLAGS,
    KEY: (),
    VALUE: (),
    HEADERS: (),
    "key_size": ("key_length",),
    "value_size": ("value_length",),
    "header_count": ("headers_count",),
    "sequence": ("sequence",),
    "producer_id": ("batch.producer_id",),
    "producer_epoch": ("batch.producer_epoch",),
    "leader_epoch": ("batch.leader_epoch",),
    "is_transactional": FLAGS,
    "is_control": FLAGS,
    TRANSACTION: ("offset", "batch.producer_id", *FLAGS),
    "magic": (MAGIC,),
    "codec": (ATTRIBUTES,),
    "position": ("batch.position",),
    "path": (),
}
"""The columns of records. Sizes are bytes, -1 for null; `position` is that of the batch in its file, in bytes."""


class Kind(NamedTuple):
    """A type of Arrow's: its format string, and the fields that it has."""

    format: str
    fields: tuple[tuple[str, Kind], ...] = ()


INT32, INT64, BOOL, TEXT, BYTES = (Kind(format_) for format_ in "ilbuz")
MILLISECONDS, MICROSECONDS = Kind("tsm:UTC"), Kind("tsu:UTC")
HEADER_LISTS = Kind("+l", (("element", Kind("+s", (("key", TEXT), ("value", BYTES)))),))

_KINDS = {
    **dict.fromkeys(("topic", "path", TRANSACTION, "codec"), TEXT),
    **dict.fromkeys(("partition", "timestamp_type", "header_count", "sequence"), INT32),
    **dict.fromkeys(("producer_epoch", "leader_epoch", "magic"), INT32),
    **dict.fromkeys(("is_transactional", "is_control"), BOOL),
    "timestamp": MILLISECONDS,
    "timestamp_us": MICROSECONDS,
    KEY: BYTES,
    VALUE: BYTES,
    HEADERS: HEADER_LISTS,
}


def kind_of(name: str) -> Kind:
    """Return the type of a column of records; 64-bit integers are those that are nothing else."""
    return _KINDS.get(name, INT64)


class Decode(StrEnum):
    """What becomes of keys and values: columns of their type, or JSON text."""

    COLUMNS = "columns"
    JSON = "json"


class Labels(NamedTuple):
    """Whose records they are: the columns `topic`, `partition` and `path` (of the .log), which are the same in all."""

    topic: str | None = None
    partition: int | None = None
    path: str | None = None


NO_LABELS = Labels()


def check_names(names: Sequence[str], known: Collection[str]) -> None:
    """Raise KdumpError for a column that there is not."""
    for name in names:
        if name not in known:
            close = closest(name, known)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(known)}"
            raise KdumpError(f"there is no column {name!r}: {hint}")


def utf8(name: str) -> str:
    """Return a file's name for Arrow, which refuses the surrogates that Python has for bytes that are not UTF-8.

    They are replaced by U+FFFD.
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
