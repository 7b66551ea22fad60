"""Loading a small log in which any bit is flipped, or any file is cut anywhere: an outcome comes, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition, content_of
from tests.recovery.building import METADATA, NOW, batch, broken, file, load, loaded, make_log, marker, produced
from tests.sampling import sampled

CONFIG = LoadingSettings(index_interval_bytes=50, segment_index_bytes=240)
SECOND = 6
END = 9
FILES = [
    file(0, "log"),
    file(0, "index"),
    file(0, "timeindex"),
    file(0, "txnindex"),
    file(SECOND, "log"),
    file(SECOND, "index"),
    file(SECOND, "timeindex"),
    file(SECOND, "snapshot"),
    file(END, "snapshot"),
    names.LEADER_EPOCH_CHECKPOINT,
    names.PARTITION_METADATA,
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a sound log of two segments: compression, an aborted transaction, two leader epochs."""
    first = [
        batch(0, 2, timestamp=1000, attributes=4),
        produced(2, 7, transactional=True),
        marker(3, 7, commit=False),
        batch(4, 2, timestamp=2000, leader_epoch=1),
    ]
    second = [produced(SECOND, 8, leader_epoch=1), batch(SECOND + 1, 2, timestamp=3000, leader_epoch=1)]
    log = make_log(
        tmp_path_factory.mktemp("sound"),
        {file(0, "log"): b"".join(first), file(SECOND, "log"): b"".join(second)},
    )
    files = loaded(log, config=CONFIG) | {names.PARTITION_METADATA: METADATA}
    assert sorted(files) == sorted(FILES)
    assert all(files[name] for name in FILES)
    return files


def outcomes(folder: Path, sound: dict[str, bytes], name: str, contents: Iterator[bytes]) -> Iterator[LoadOutcome]:
    """What loading comes to, after clean and unclean shutdowns, where a file has each of these contents."""
    log = make_log(folder, sound)
    path = Path(log.path, name)
    for content in contents:
        path.write_bytes(content)
        for clean in (False, True):
            outcome = load_log(PartitionLog(log.path), Startup(NOW, clean, END if clean else 0, config=CONFIG))
            for file_name, recipe in (outcome.files or {}).items():
                assert sum(map(len, content_of(log.path, recipe))) == recipe.size, file_name
            assert outcome.ok == (outcome.files is not None)
            assert outcome.failure is None or outcome.failure.exception
            yield outcome


def flips(data: bytes) -> Iterator[bytes]:
    """The data with each bit turned over, one at a time."""
    for bit in range(8 * len(data)):
        at = bit // 8
        yield data[:at] + bytes((data[at] ^ 1 << bit % 8,)) + data[at + 1 :]


def cuts(data: bytes) -> Iterator[bytes]:
    """The data cut at each point."""
    return (data[:end] for end in range(len(data)))


def test_the_sound_log_stays_as_it_is(sound: dict[str, bytes], tmp_path: Path) -> None:
    for outcome in outcomes(tmp_path, sound, file(0, "log"), iter([sound[file(0, "log")]])):
        assert outcome.log_end_offset == END
        assert outcome.loss.bytes == 0
        assert {name: recipe.size for name, recipe in (outcome.files or {}).items()} == {
            name: len(data) for name, data in sound.items()
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit(name: str, sound: dict[str, bytes], tmp_path: Path) -> None:
    ends = [outcome.log_end_offset for outcome in outcomes(tmp_path, sound, name, flips(sound[name])) if outcome.ok]
    assert len(ends) > 8
    if name.endswith("log"):
        assert min(ends) < END <= max(ends)
    elif name.endswith("index"):
        assert END in ends
    elif name != names.PARTITION_METADATA:
        assert set(ends) == {END}


@pytest.mark.parametrize("name", sampled(FILES, 2))
def test_every_cut(name: str, sound: dict[str, bytes], tmp_path: Path) -> None:
    found = list(outcomes(tmp_path, sound, name, cuts(sound[name])))
    assert len(found) == 2 * len(sound[name])
    unclean = found[::2]
    if not name.endswith("log"):
        # nothing but the logs holds records: after an unclean shutdown all else is made anew, or loading fails
        assert {outcome.loss.bytes for outcome in unclean} == {0}
        return
    for size, outcome in enumerate(unclean):
        kept = next(step for step in outcome.steps if step.file == name and step.action == "recover")
        assert kept.size == size
        assert outcome.ok
        # a first segment that ends between batches takes nothing from the second; offsets are missing all the same
        assert (outcome.log_end_offset < END) == (outcome.loss.bytes > 0 or name == file(SECOND, "log"))


def test_a_cut_between_batches_loses_nothing_that_is_there(sound: dict[str, bytes], tmp_path: Path) -> None:
    last = batch(SECOND + 1, 2, timestamp=3000, leader_epoch=1)
    log = make_log(tmp_path, sound | {file(SECOND, "log"): sound[file(SECOND, "log")][: -len(last)]})
    outcome = load(log, config=CONFIG)
    assert (outcome.log_end_offset, outcome.loss.bytes) == (SECOND + 1, 0)


def test_only_good_batches_count_as_lost_records(tmp_path: Path) -> None:
    data = broken(batch(0, 3)) + batch(3, 2, attributes=4) + broken(batch(5)) + b"x"
    log = make_log(tmp_path, {file(0, "log"): data})
    loss = load(log).loss
    assert (loss.batches, loss.records, loss.first_offset, loss.last_offset) == (1, 2, 3, 4)
    assert loss.bytes == len(data)
    assert loss.has_data


def test_a_file_that_vanishes_is_an_error_of_the_system(sound: dict[str, bytes], tmp_path: Path) -> None:
    log = make_log(tmp_path, sound)
    Path(log.path, file(0, "index")).unlink()
    with pytest.raises(FileNotFoundError):
        load(log, config=CONFIG)


def test_a_checkpoint_too_large_to_be_one_is_not_read(
    sound: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(tmp_path, sound)
    monkeypatch.setattr("kdump.storage.planned.MAX_AT_ONCE", 10)
    with pytest.raises(KdumpError, match="bytes are too many for a file of this kind"):
        load(log, config=CONFIG)


def test_a_file_that_shrinks_once_it_is_listed_ends_where_it_now_does(sound: dict[str, bytes], tmp_path: Path) -> None:
    log = make_log(tmp_path, sound)
    directory = PlannedPartition(log)
    for name in (file(0, "log"), file(0, "txnindex"), file(SECOND, "snapshot"), file(SECOND, "index")):
        Path(log.path, name).write_bytes(sound[name][:-5])
    for clean in (False, True):
        outcome = load_log(log, Startup(NOW, clean, config=CONFIG), directory)
        assert outcome.ok
