"""Following a log: what is appended, rolled, cut and deleted while it is watched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kdump.query.follow import Follower, Truncated
from kdump.query.selection import Selection
from kdump.query.sweep import Selected
from kdump.storage.damage import Damage
from kdump.storage.log_reader import LogFile
from tests.commands.logs import EPOCH, STEP, batch, write_segment


def poll(follower: Follower) -> list[Any]:
    """The offsets that have come, and whatever else has."""
    found: list[Any] = []
    for _, _, event in follower.poll():
        if isinstance(event, Selected):
            found += [span[0] for span in event.spans()]
        else:
            found.append(event)
    return found


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_segment(tmp_path / "t-0", 0, [batch(0, 2), batch(2, 2)], indexes=False)


def test_appended_batches_come_once(log: Path) -> None:
    for follower in (Follower(str(log.parent), Selection()), Follower(str(log), Selection(), is_single=True)):
        assert poll(follower) == [0, 1, 2, 3]
        assert poll(follower) == []
    append(log, batch(4, 3))
    assert poll(follower) == [4, 5, 6]
    append(log, batch(7, 1) + batch(8, 1))
    assert poll(follower) == [7, 8]
    assert poll(follower) == []


def test_a_half_written_batch_is_waited_for(log: Path) -> None:
    follower = Follower(str(log.parent), Selection())
    poll(follower)
    data = batch(4, 3)
    for cut in (5, 17, 40, len(data) - 1):
        append(log, data[log.stat().st_size - len(batch(0, 2) + batch(2, 2)) : cut])
        assert poll(follower) == []
    append(log, data[-1:])
    assert poll(follower) == [4, 5, 6]


def test_a_batch_whose_bytes_arrive_after_its_size_is_waited_for(log: Path) -> None:
    """Preallocated, or extended before the pages are there: zeros, and a CRC that does not hold yet."""
    follower = Follower(str(log.parent), Selection())
    poll(follower)
    end, data = log.stat().st_size, batch(4, 3)
    with log.open("r+b") as file:
        file.truncate(end + 1000)
        assert poll(follower) == []
        file.seek(end)
        file.write(data[:30])
        file.flush()
        assert poll(follower) == []
        file.seek(end + 30)
        file.write(data[30:])
        file.flush()
        assert poll(follower) == [4, 5, 6]
        file.write(batch(7, 1))
        file.flush()
        assert poll(follower) == [7]


def test_damage_is_told_once_there_is_something_good_behind_it(log: Path) -> None:
    follower = Follower(str(log.parent), Selection())
    poll(follower)
    end = log.stat().st_size
    append(log, b"garbage!" * 10)
    assert poll(follower) == []
    append(log, batch(4, 1))
    damage, offset = poll(follower)
    assert isinstance(damage, Damage)
    assert (damage.position, damage.resumed, offset) == (end, end + 80, 4)
    assert poll(follower) == []


def test_a_rolled_segment_is_read_to_its_end_first(log: Path) -> None:
    follower = Follower(str(log.parent), Selection())
    assert poll(follower) == [0, 1, 2, 3]
    append(log, batch(4, 1))
    write_segment(log.parent, 5, [batch(5, 1)], indexes=False)
    write_segment(log.parent, 6, [], indexes=False)
    assert poll(follower) == [4, 5]
    append(log.parent / f"{6:020d}.log", batch(6, 2))
    assert poll(follower) == [6, 7]


def test_the_half_of_a_batch_that_a_roll_left_behind_is_damage(log: Path) -> None:
    follower = Follower(str(log.parent), Selection())
    poll(follower)
    append(log, batch(4, 1)[:30])
    assert poll(follower) == []
    write_segment(log.parent, 4, [batch(4, 1)], indexes=False)
    damage, offset = poll(follower)
    assert isinstance(damage, Damage)
    assert "the log ends inside batch 4: 30 of " in damage.text
    assert offset == 4


def test_a_truncated_log_goes_on_at_its_new_end(log: Path) -> None:
    follower = Follower(str(log.parent), Selection())
    poll(follower)
    was, size = log.stat().st_size, len(batch(0, 2))
    os.truncate(log, size)
    assert poll(follower) == [Truncated(was, size)]
    assert poll(follower) == []
    append(log, batch(2, 1))
    assert poll(follower) == [2]


def test_segments_that_are_deleted_do_not_matter(log: Path) -> None:
    follower = Follower(str(log.parent), Selection())
    poll(follower)
    write_segment(log.parent, 4, [batch(4, 1)], indexes=False)
    log.rename(log.with_name(log.name + ".deleted"))
    assert poll(follower) == [4]


def test_what_is_gone_altogether_is_an_error(log: Path) -> None:
    single, whole = Follower(str(log), Selection(), is_single=True), Follower(str(log.parent), Selection())
    poll(single)
    poll(whole)
    log.unlink()
    assert poll(whole) == []
    with pytest.raises(FileNotFoundError):
        poll(single)
    log.parent.rmdir()
    with pytest.raises(FileNotFoundError):
        poll(whole)


def test_bounds_end_it(log: Path) -> None:
    follower = Follower(str(log.parent), Selection(1, 5))
    assert poll(follower) == [1, 2, 3]
    assert not follower.is_done
    append(log, batch(4, 3))
    # the last batch reaches over the bound: what follows it is not known yet
    assert (poll(follower), follower.is_done) == ([4], False)
    append(log, batch(7, 1))
    assert (poll(follower), follower.is_done) == ([], True)
    past = Follower(str(write_segment(log.parent.parent / "u-0", 50, [batch(50, 1)]).parent), Selection(0, 10))
    assert poll(past) == []
    assert past.is_done


def test_other_filters_hold(log: Path) -> None:
    follower = Follower(str(log.parent), Selection(since=EPOCH + 3 * STEP))
    assert poll(follower) == [3]
    append(log, batch(4, 1))
    assert poll(follower) == [4]


def test_a_file_that_did_not_change_is_not_opened(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(log, (EPOCH / 1000, EPOCH / 1000))
    follower = Follower(str(log.parent), Selection())
    poll(follower)

    def opened(self: LogFile, path: str) -> None:
        raise AssertionError(path)

    with monkeypatch.context() as patch:
        patch.setattr(LogFile, "__init__", opened)
        assert poll(follower) == []
    append(log, batch(4, 1))
    assert poll(follower) == [4]
