"""Where a verification that ran out of time is to go on, kept in a small file."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import NamedTuple

from kdump.errors import KdumpError

VERSION = 1


class Mark(NamedTuple):
    """The partition directory and the base offset of the segment to begin with.

    `last_offset` (absolute; None unknown) and `leader_epoch` are those of the batch before it.
    """

    partition: str
    base_offset: int
    last_offset: int | None
    leader_epoch: int


def read_mark(path: str, paths: list[str]) -> Mark | None:
    """The mark in the file at `path`; None where there is no file, or one of a run over other paths.

    Raises OSError, and KdumpError where the file is something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise KdumpError(f"{path} is not a resume file of kdump verify: {error}") from None
    match content:
        case {
            "kdump_verify": 1,
            "paths": list(before),
            "partition": str(partition),
            "base_offset": int(base),
            "last_offset": int() | None as last,
            "leader_epoch": int(epoch),
        }:
            return Mark(partition, base, last, epoch) if before == paths else None
    raise KdumpError(f"{path} is not a resume file of kdump verify")


def write_mark(path: str, paths: list[str], mark: Mark) -> None:
    """Write the file anew, or leave it as it was where that fails. Raises OSError."""
    content = {"kdump_verify": VERSION, "paths": paths, **mark._asdict()}
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def check_writable(path: str) -> None:
    """Whether a file can be written at a path, before hours of work are lost for want of that. Raises OSError."""
    temporary = f"{path}.tmp"
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o666))
    os.remove(temporary)


def remove_mark(path: str) -> None:
    """Remove the file of a run that came to its end. Raises OSError."""
    with suppress(FileNotFoundError):
        os.remove(path)
