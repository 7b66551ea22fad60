"""What shows that the first segments of a log were lost, of all that a broker leaves there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats.checkpoints import EpochEntry
from kdump.replication.front import LostFront, lost_front
from kdump.storage.partition import PartitionLog

EPOCHS = "leader-epoch-checkpoint begins there"
LOG_START = "log-start-offset-checkpoint has it, written as the broker stopped"


def name(offset: int, kind: str) -> str:
    return f"{offset:020d}.{kind}"


def left(offset: int, kind: str) -> str:
    return f"{name(offset, kind)} is left of it"


@pytest.mark.parametrize(
    ("files", "epochs", "log_start", "clean", "expected"),
    [
        ([], [], 0, True, None),
        # leader epochs: the first one counts
        ([], [(0, 0)], 0, False, (0, EPOCHS)),
        ([], [(0, 7), (1, 9)], 0, False, (7, EPOCHS)),
        ([], [(0, 20)], 0, False, None),
        ([], [(0, 19)], 0, False, (19, EPOCHS)),
        ([], [(0, 25)], 0, False, None),
        # what was deleted is not lost
        ([], [(0, 0)], 5, False, (5, EPOCHS)),
        ([], [(0, 0)], 19, False, (19, EPOCHS)),
        ([], [(0, 0)], 20, False, None),
        # the checkpoint by itself, of a broker that stopped in order
        ([], [], 5, True, (5, LOG_START)),
        ([], [], 1, True, (1, LOG_START)),
        ([], [], 5, False, None),
        ([], [(0, 20)], 5, True, (5, LOG_START)),
        # index files below the first segment
        ([name(3, "index")], [], 0, False, (3, left(3, "index"))),
        ([name(3, "timeindex"), name(6, "txnindex")], [], 0, False, (3, left(3, "timeindex"))),
        ([name(6, "txnindex")], [(0, 8)], 0, True, (6, left(6, "txnindex"))),
        ([name(20, "index"), name(25, "index")], [], 0, False, None),
        ([name(3, "snapshot")], [], 0, False, None),
        ([name(3, "index.deleted")], [], 0, False, None),
        ([name(3, "index.swap")], [], 0, False, None),
        ([name(3, "index"), name(3, "log.deleted")], [], 0, False, None),
        ([name(3, "index"), name(6, "log.deleted")], [], 0, False, (3, left(3, "index"))),
        (["notes.index"], [], 0, False, None),
    ],
)
def test_where_a_log_began(
    tmp_path: Path, files: list[str], epochs: list[tuple[int, int]], log_start: int, clean: bool,
    expected: tuple[int, str] | None,
) -> None:  # fmt: skip
    folder = tmp_path / "t-0"
    folder.mkdir()
    for each in (name(20, "log"), name(30, "log"), *files):
        (folder / each).touch()
    log = PartitionLog(str(folder))
    entries = [EpochEntry(*each) for each in epochs]
    found = lost_front(log, entries, log_start, clean=clean)
    assert found == (None if expected is None else LostFront(*expected))


def test_a_directory_without_segments(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    assert lost_front(PartitionLog(str(folder)), [EpochEntry(0, 0)], 5, clean=True) is None
