"""Damage in the leader's copy, and what the copies of other nodes have in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.fixture.make import make
from kdump.server.background import serve
from kdump.server.cluster import ServedCluster
from kdump.server.partition import ServedPartition
from kdump.server.pieces import OnDamage
from kdump.storage.open import open_directory
from tests.serve.clients import READERS, UNCOMMITTED
from tests.serve.data import Seen
from tests.serve.test_partition import batches, content

RECORDS = 60


def build(folder: Path, *faults: str, behind: int | None = None) -> list[str]:
    """The log directories of three brokers; the second one may end at an offset."""
    second = "b2" if behind is None else {"log_dir": "b2", "end_offset": behind}
    appended = {"append": {"records": RECORDS // 2, "batch_records": 5, "value": {"shape": "json", "size": [40, 90]}}}
    spec = {
        "seed": 8,
        "log_dirs": [{"name": f"b{number}", "node_id": number} for number in (1, 2, 3)],
        "topics": [
            {
                "name": "copied",
                "config": {"segment.bytes": 2000},
                "replicas": ["b1", second],
                "steps": [appended, {"leader_epoch": 1}, appended],
            }
        ],
    }
    path = Path(make(spec, folder, faults).path)
    return sorted(str(each) for each in path.iterdir() if each.is_dir())


def read(paths: list[str], said: list[str], on_damage: OnDamage = OnDamage.STOP) -> list[Seen]:
    with serve(*paths, on_damage=on_damage, say=said.append) as server:
        return READERS["confluent-kafka"](server, UNCOMMITTED)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    found = read(build(tmp_path_factory.mktemp("sound") / "data"), [])
    assert [seen.offset for seen in found] == list(range(RECORDS))
    return found


@pytest.mark.parametrize("on_damage", [OnDamage.STOP, OnDamage.SKIP])
@pytest.mark.parametrize(
    "fault",
    [
        "flip-payload-bit:log_dir=b1,topic=copied,batch=0",
        "flip-payload-bit:log_dir=b1,topic=copied,segment=0,batch=2",
        "flip-payload-bit:log_dir=b1,topic=copied,segment=1,batch=1",
        "zero-batch:log_dir=b1,topic=copied,segment=1,batch=0",
    ],
)
def test_batches_come_from_a_sound_copy(fault: str, on_damage: OnDamage, sound: list[Seen], tmp_path: Path) -> None:
    said: list[str] = []
    assert read(build(tmp_path / "data", fault), said, on_damage) == sound
    assert len(said) == 1
    assert said[0].endswith(f": sent from the copy {tmp_path}/data/b2/copied-0")


def test_two_copies_that_are_both_damaged_make_a_whole_one(sound: list[Seen], tmp_path: Path) -> None:
    faults = [f"flip-payload-bit:log_dir=b{n},topic=copied,segment={s},batch={b}" for n, s, b in ((1, 0, 3), (2, 0, 1))]
    said: list[str] = []
    assert read(build(tmp_path / "data", *faults), said) == sound
    assert len(said) == 1


def test_the_same_damage_everywhere_is_the_end(sound: list[Seen], tmp_path: Path) -> None:
    faults = [f"flip-payload-bit:log_dir=b{n},topic=copied,segment=1,batch=1" for n in (1, 2)]
    said: list[str] = []
    assert read(build(tmp_path / "data", *faults), said) == sound[:25]
    assert [line.partition("the partition")[2] for line in said] == [
        " ends at offset 25, for no other copy has these batches whole"
    ]


def test_a_copy_that_ends_before_has_nothing(sound: list[Seen], tmp_path: Path) -> None:
    said: list[str] = []
    paths = build(tmp_path / "data", "flip-payload-bit:log_dir=b1,topic=copied,segment=1,batch=2", behind=30)
    assert read(paths, said) == sound[:30]
    assert "no other copy" in said[0]


def test_a_copy_of_other_leaders_is_not_taken(sound: list[Seen], tmp_path: Path) -> None:
    """With another history its records at these offsets may be others."""
    said: list[str] = []
    paths = build(tmp_path / "data", "flip-payload-bit:log_dir=b1,topic=copied,segment=1,batch=2")
    epochs = Path(paths[1], "copied-0", "leader-epoch-checkpoint")
    epochs.write_text(epochs.read_text().replace("1 30", "2 30"))
    assert read(paths, said) == sound[:30]
    assert "no other copy" in said[0]


def test_every_offset_and_limit_in_and_around_a_copied_batch(tmp_path: Path) -> None:
    whole = _partition(build(tmp_path / "sound"))
    mended = _partition(build(tmp_path / "data", "zero-batch:log_dir=b1,topic=copied,segment=1,batch=1"))
    assert mended.end_offset == whole.end_offset == RECORDS
    for stop in (25, 30, RECORDS):
        expected = list(batches(content(whole.fetch(0, stop, 1 << 20, is_first=True))))
        for limit in (1, 300, 600, 1 << 20):
            for offset in range(stop):
                rest = [row for row in expected if row[1] >= offset]
                found = list(batches(content(mended.fetch(offset, stop, limit, is_first=True))))
                known = list(batches(content(mended.fetch_known(offset, stop, limit, is_first=True))))
                assert found == known == rest[: len(found)] != []


def _partition(paths: list[str]) -> ServedPartition:
    cluster = ServedCluster(map(open_directory, paths), OnDamage.STOP, print, lambda line: None)
    served = cluster.partition(1, "copied", 0)
    assert served is not None
    return served
