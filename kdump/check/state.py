"""What earlier runs have verified, kept in a file: closed segments that have not changed need no second reading."""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from kdump.disk.durable import replace_alone
from kdump.disk.reading import is_file, read_small, status_of
from kdump.disk.rights import rights_of
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment

VERSION = 1
MAX_BYTES = 1 << 30

Files = dict[str, tuple[int, int, int]]
"""Of a segment's files, by kind: inode, size (bytes), time of change (ns)."""


class Verified(NamedTuple):
    """A closed segment in which nothing was wrong.

    `checksum` is the CRC-32 of its batches' CRCs, in order. `last_offset` (absolute; None unknown) and `leader_epoch`
    are those of its last batch. `deep`: its records were decoded too.
    """

    base_offset: int
    files: Files
    checksum: int
    last_offset: int | None
    leader_epoch: int
    deep: bool


class State:
    """The segments verified so far, by the absolute path of their partition; `last_pass` in seconds since 1970."""

    def __init__(self) -> None:
        self.partitions: dict[str, list[Verified]] = {}
        self.last_pass: float | None = None

    def known(self, log: PartitionLog, *, deep: bool) -> list[Verified]:
        """Return the first segments of a log, as far as they were verified before and are the same still."""
        found: list[Verified] = []
        before = self.partitions.get(os.path.abspath(log.path), ())
        for segment, verified in zip(log.segments[:-1], before, strict=False):
            is_same = verified.base_offset == segment.base_offset and verified.files == files_of(segment)
            if not is_same or (deep and not verified.deep):
                break
            found.append(verified)
        return found

    def verified(self, log: PartitionLog) -> list[Verified]:
        """Return what was verified of a log before, whether it is the same still or not."""
        return self.partitions.get(os.path.abspath(log.path), [])

    def put(self, path: str, verified: Sequence[Verified]) -> None:
        """Remember the first segments of the partition at a path."""
        self.partitions[os.path.abspath(path)] = list(verified)


def files_of(segment: Segment) -> Files:
    """Return what tells whether a segment is still the same. Raises OSError."""
    kinds = (kind for kind in (names.LOG, *names.INDEX_KINDS) if is_file(segment.path(kind)))
    found = {kind: status_of(segment.path(kind)) for kind in kinds}
    return {kind: (status.inode, status.size, status.modified_ns) for kind, status in found.items()}


def is_same_file(before: Files, now: Files) -> bool:
    """Return whether a .log is the file that it was, of the same size. Cleaner and fetches make new files."""
    return names.LOG in before and names.LOG in now and before[names.LOG][:2] == now[names.LOG][:2]


def checksum(crcs: array[int], before: int) -> int:
    """Return the CRC-32 of the CRCs of batches, which follow those of which it is `before`."""
    return zlib.crc32(b"".join(crc.to_bytes(4, "big") for crc in crcs), before)


def read_state(path: str) -> State:
    """Return the state in a file; empty without it. Raises OSError, and KdumpError where it is something else."""
    import json

    state = State()
    try:
        content = json.loads(read_small(path, MAX_BYTES))
    except FileNotFoundError:
        return state
    except (ValueError, RecursionError) as error:
        raise KdumpError(f"{path} is not a state file of kdump verify: {error}") from None
    try:
        if content["kdump_verify_state"] != VERSION:
            raise ValueError(f"version {content['kdump_verify_state']}")
        state.last_pass = content["last_pass"]
        for partition, segments in content["partitions"].items():
            state.partitions[partition] = [_verified(*fields) for fields in segments]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise KdumpError(f"{path} is not a state file of kdump verify: {error}") from None
    return state


def _verified(base_offset: int, files: dict[str, list[int]], *others: Any) -> Verified:
    identities = {kind: (inode, size, modified) for kind, (inode, size, modified) in files.items()}
    return Verified(base_offset, identities, *others)


def write_state(path: str, state: State) -> None:
    """Write the state; all of it or nothing. Raises OSError."""
    import json

    content = {
        "kdump_verify_state": VERSION,
        "last_pass": state.last_pass,
        "partitions": {partition: segments for partition, segments in state.partitions.items() if segments},
    }
    data = json.dumps(content, separators=(",", ":")).encode() + b"\n"
    replace_alone(path, data, durable=True, rights=rights_of(state.partitions))
