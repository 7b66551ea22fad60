r"""Kafka's text checkpoints: the four offset checkpoints of a log directory and a partition's leader epochs.

    line 1    version, always 0
    line 2    number of entries
    then      one entry a line, its fields separated by white space:
              offset checkpoints        <topic> <partition> <offset>
              leader-epoch-checkpoint   <epoch> <start offset>

UTF-8; written with a single space between fields and \n after every line. An empty file, and one that has a version
only, are valid and have no entries; a blank line is not. Kafka writes leader epochs in ascending order, but its reader
does not insist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from kdump.errors import ILLEGAL_ARGUMENT, NUMBER_FORMAT, CheckpointError
from kdump.formats.java_text import parse_int, parse_long, read_lines, split_whitespace

CHECKPOINT_VERSION = 0


class OffsetCheckpointEntry(NamedTuple):
    """The offset checkpointed for one partition."""

    topic: str
    partition: int
    offset: int


class EpochEntry(NamedTuple):
    """The first offset that a leader of this epoch wrote."""

    epoch: int
    start_offset: int


Entry = TypeVar("Entry", OffsetCheckpointEntry, EpochEntry)


def parse_offset_checkpoint(data: bytes, path: str) -> list[OffsetCheckpointEntry]:
    """Return the entries of an offset checkpoint in the file's order; of several of a partition Kafka takes the last.

    Raises CheckpointError with Kafka's texts; `path` is what they call the file.
    """
    return _parse(data, path, OffsetCheckpointEntry)


def parse_leader_epochs(data: bytes, path: str) -> list[EpochEntry]:
    """Return the entries of a leader-epoch-checkpoint in the file's order.

    Raises CheckpointError with Kafka's texts; `path` is what they call the file.
    """
    return _parse(data, path, EpochEntry)


def format_offset_checkpoint(entries: Iterable[OffsetCheckpointEntry]) -> bytes:
    """Return the bytes that Kafka would write for `entries`."""
    return _format(entries)


def format_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Return the bytes that Kafka would write for `entries`."""
    return _format(entries)


def _format(entries: Iterable[tuple[object, ...]]) -> bytes:
    lines = [" ".join(map(str, entry)) for entry in entries]
    return "".join(f"{line}\n" for line in [CHECKPOINT_VERSION, len(lines), *lines]).encode()


def _parse(data: bytes, path: str, kind: type[Entry]) -> list[Entry]:
    try:
        lines = list(read_lines(data))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"Checkpoint file [{path}] is not UTF-8 text: {error.reason}") from None
    if lines:
        _check_version(lines[0], path)
    if len(lines) < 2:
        return []
    expected = _parse_number(lines[1], path)
    entries = [_parse_entry(line, path, kind) for line in lines[2:]]
    if len(entries) != expected:
        text = f"Expected [{expected}] entries in checkpoint file [{path}], but found only [{len(entries)}]"
        if expected < 0:
            raise CheckpointError(text, ILLEGAL_ARGUMENT, f"Illegal Capacity: {expected}")
        raise CheckpointError(text)
    return entries


def _parse_entry(line: str, path: str, kind: type[Entry]) -> Entry:
    fields: list[Any] = split_whitespace(line)
    if len(fields) != len(kind._fields):
        raise _malformed(line, path)
    fields[-2:] = _number(parse_int, fields[-2], line, path), _number(parse_long, fields[-1], line, path)
    return kind._make(fields)


def _number(parse: Callable[[str], int | None], field: str, line: str, path: str) -> int:
    """Return the number of an entry, where Kafka catches no NumberFormatException, as it does for version and count."""
    number = parse(field)
    if number is None:
        raise CheckpointError(str(_malformed(line, path)), NUMBER_FORMAT, f'For input string: "{field}"')
    return number


def _check_version(line: str, path: str) -> None:
    version = _parse_number(line, path)
    if version != CHECKPOINT_VERSION:
        raise CheckpointError(
            f"Unrecognised version:{version}, expected version: {CHECKPOINT_VERSION} in checkpoint file at: {path}"
        )


def _parse_number(line: str, path: str) -> int:
    number = parse_int(line)
    if number is None:
        raise _malformed(line, path)
    return number


def _malformed(line: str, path: str) -> CheckpointError:
    return CheckpointError(f"Malformed line in checkpoint file [{path}]: {line}")
