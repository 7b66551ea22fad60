"""The columns that records can be read as: their names, and which of the kernels' columns each is made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from kdump.errors import KdumpError
from kdump.formats.close_names import closest

KEY, VALUE, HEADERS = "key", "value", "headers"
TRANSACTION = "transaction"
LABELS = ("topic", "partition", "path")
JSON_FIELD = {b"kdump": b"json"}
"""The metadata of a column whose texts are JSON."""

MAX_MS = (1 << 63) // 1000 - 1
"""Beyond it a timestamp has no microseconds."""

ATTRIBUTES, MAGIC = "batch.attributes", "batch.magic"
FLAGS = (ATTRIBUTES, MAGIC)


class Kind(NamedTuple):
    """A type of Arrow's: its format string, and the fields that it has."""

    format: str
    fields: tuple[tuple[str, Kind], ...] = ()


INT32, INT64, BOOL, TEXT, BYTES = (Kind(format_) for format_ in "ilbuz")
MILLISECONDS, MICROSECONDS = Kind("tsm:UTC"), Kind("tsu:UTC")
HEADER_LISTS = Kind("+l", (("element", Kind("+s", (("key", TEXT), ("value", BYTES)))),))

_RECORD_COLUMNS: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "topic": (TEXT, ()),
    "partition": (INT32, ()),
    "offset": (INT64, ("offset",)),
    "timestamp": (MILLISECONDS, ("timestamp",)),
    "timestamp_us": (MICROSECONDS, ("timestamp",)),
    "timestamp_type": (INT32, FLAGS),
    KEY: (BYTES, ()),
    VALUE: (BYTES, ()),
    HEADERS: (HEADER_LISTS, ()),
    "key_size": (INT64, ("key_length",)),
    "value_size": (INT64, ("value_length",)),
    "header_count": (INT32, ("headers_count",)),
    "sequence": (INT32, ("sequence",)),
    "producer_id": (INT64, ("batch.producer_id",)),
    "producer_epoch": (INT32, ("batch.producer_epoch",)),
    "leader_epoch": (INT32, ("batch.leader_epoch",)),
    "is_transactional": (BOOL, FLAGS),
    "is_control": (BOOL, FLAGS),
    TRANSACTION: (TEXT, ("offset", "batch.producer_id", *FLAGS)),
    "magic": (INT32, (MAGIC,)),
    "codec": (TEXT, (ATTRIBUTES,)),
    "position": (INT64, ("batch.position",)),
    "path": (TEXT, ()),
}
"""The columns of records: types, and which of the kernels' columns each is made of.

Sizes are bytes, -1 for null; `position` is that of the batch in its file, in bytes.
"""

RECORD_NEEDS: dict[str, tuple[str, ...]] = {name: needs for name, (_, needs) in _RECORD_COLUMNS.items()}
RECORD_KINDS: dict[str, Kind] = {name: kind for name, (kind, _) in _RECORD_COLUMNS.items()}


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
