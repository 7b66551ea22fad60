"""Where a verification that ran out of time is to go on, kept in a small file."""

from __future__ import annotations

from typing import NamedTuple

from kdump.disk.durable import replace_alone
from kdump.disk.reading import read_small
from kdump.disk.rights import rights_of
from kdump.errors import KdumpError

VERSION = 1
MAX_BYTES = 1 << 24


class Mark(NamedTuple):
    """The partition directory and the base offset of the segment to begin with.

    `last_offset` (absolute; None unknown) and `leader_epoch` are those of the batch before it.
    """

    partition: str
    base_offset: int
    last_offset: int | None
    leader_epoch: int


class PassTotals(NamedTuple):
    """What the runs of one pass over the same paths came to, together; `seconds` that they took."""

    runs: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    unread: int = 0
    partitions: int = 0
    segments: int = 0
    skipped: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def plus(self, other: PassTotals) -> PassTotals:
        """Return the totals with those of the next run, which begins in the partition where the one before it ended."""
        seconds, overlap = self.seconds + other.seconds, bool(self.runs and other.partitions)
        sums = PassTotals(*(a + b for a, b in zip(self[:-1], other[:-1], strict=True)))
        return sums._replace(partitions=sums.partitions - overlap, seconds=seconds)


NOTHING_YET = PassTotals()


class ResumePoint(NamedTuple):
    """What a resume file keeps: where to go on, and what the pass has come to so far."""

    mark: Mark | None = None
    totals: PassTotals = NOTHING_YET


def read_resume_point(path: str, paths: list[str]) -> ResumePoint:
    """Return what the file at `path` keeps; nothing where there is no file, or one of a run over other paths.

    Raises OSError, and KdumpError where the file is something else.
    """
    import json

    try:
        content = json.loads(read_small(path, MAX_BYTES))
    except FileNotFoundError:
        return ResumePoint()
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
            mark = Mark(partition, base, last, epoch)
            return ResumePoint(mark, _totals(content.get("so_far"))) if before == paths else ResumePoint()
    raise KdumpError(f"{path} is not a resume file of kdump verify")


def _totals(found: object) -> PassTotals:
    """Return the totals of a resume file; none in one that has none."""
    if not isinstance(found, dict):
        return NOTHING_YET
    counts = [found.get(name) for name in PassTotals._fields[:-1]]
    seconds = found.get("seconds")
    totals = PassTotals(*(count if isinstance(count, int) and count >= 0 else 0 for count in counts))
    return totals._replace(seconds=seconds if isinstance(seconds, int | float) and seconds >= 0 else 0.0)


def write_resume_point(path: str, paths: list[str], mark: Mark, totals: PassTotals) -> None:
    """Write the file again, or leave it as it was where that fails. Raises OSError."""
    import json

    content = {"kdump_verify": VERSION, "paths": paths, **mark._asdict(), "so_far": totals._asdict()}
    replace_alone(path, json.dumps(content).encode() + b"\n", durable=True, rights=rights_of(paths))
