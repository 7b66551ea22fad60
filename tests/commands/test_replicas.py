"""`kdump replicas`: what it says of copies, of who may lead, and of what is lost then."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from tests.agreement.running import Said, kdump
from tests.commands.logs import write_segment
from tests.replicas.building import OnDisk, chain, flip, partition_fields, write_copy, write_metadata

SHARED = chain(0, (0, 40))
LONGER = chain(0, (0, 48))


def said(root: Path, *arguments: object) -> Said:
    paths = [] if any(str(each).startswith("b") for each in arguments) else sorted(root.glob("b?"))
    return kdump(root, "replicas", *(path.name for path in paths), *arguments)


def rows(root: Path, kind: str, *arguments: object) -> list[dict[str, Any]]:
    return said(root, *arguments, "--format", "jsonl").of_type(kind)


def choice(root: Path, leader: int) -> dict[str, Any]:
    return next(row for row in rows(root, "choice") if row["leader"] == leader)


@pytest.fixture
def behind(tmp_path: Path) -> Path:
    """Three in-sync replicas, all brokers killed; the third is 40 records behind, of which 20 were committed."""
    for broker, batches, mark in ((1, LONGER, 220), (2, LONGER, 200), (3, SHARED, 200)):
        write_copy(tmp_path, broker, OnDisk(batches, high_watermark=mark, clean=False, roll=[100]))
        write_metadata(tmp_path, broker, partition_fields([3, 1, 2], [1, 2, 3], 1))
    return tmp_path


def test_any_in_sync_replica_may_lead_after_a_crash(behind: Path) -> None:
    found = {row["leader"]: row for row in rows(behind, "choice")}
    assert {leader: row["standing"] for leader, row in found.items()} == {1: "inSync", 2: "inSync", 3: "inSync"}
    assert found[1]["lost"]["records"] == found[2]["lost"]["records"] == 0
    lost = found[3]["lost"]
    assert (lost["records"], lost["committed"], lost["possiblyAcknowledgedByAll"]) == (40, 20, 0)
    assert [(each["firstOffset"], each["lastOffset"]) for each in lost["ranges"]] == [(200, 239)]
    cuts = {copy["broker"]: copy["cutAt"] for copy in found[3]["copies"]}
    assert cuts == {1: 200, 2: 200}


def test_text_names_the_best_leader_and_how_to_get_it(behind: Path) -> None:
    out = said(behind)
    assert out.code == 0
    assert "orders-0: 3 copies agree on 0\N{EN DASH}199" in out.out
    assert "200\N{EN DASH}239 not there yet" in out.out
    assert "40 records (20 committed)" in out.out
    heal, lead = out.out.index("kdump repair b3/orders-0 --from b1/orders-0"), out.out.index("Let broker 1 lead")
    assert heal < lead, "what needs no election comes first"
    assert "--election-type UNCLEAN" in out.out
    assert out.out.endswith("OK. 1 partition: the copies of 1 are only behind.\n")
    assert max(map(len, out.out.splitlines())) <= 80


def test_what_was_healed_has_nothing_left_to_say(behind: Path) -> None:
    assert kdump(behind, "repair", "b3/orders-0", "--from", "b1/orders-0", "--apply").code == 0
    assert said(behind).out == "OK. 1 partition: all copies are identical.\n"
    assert "identical" in said(behind, "-v").out


def test_a_damaged_copy_must_not_lead(tmp_path: Path) -> None:
    for broker in (1, 2, 3):
        folder = write_copy(tmp_path, broker, OnDisk(SHARED, high_watermark=200))
        write_metadata(tmp_path, broker, partition_fields([1, 2, 3], [1, 2, 3], 1))
        if broker == 1:
            flip(folder / f"{0:020d}.log", 3 * len(SHARED[0].data) + 80)
    out = said(tmp_path)
    assert out.code == 1
    first = out.out.index("First:")
    assert "must not lead" in out.out[first:]
    assert out.out.index("kdump repair b1/orders-0 --from b2/orders-0") > first
    assert choice(tmp_path, 1)["blockedAt"] == 15
    assert choice(tmp_path, 2)["blockedAt"] is None


def test_two_histories(tmp_path: Path) -> None:
    shared = chain(0, (0, 10))
    write_copy(tmp_path, 1, OnDisk([*shared, *chain(50, (1, 4))], high_watermark=50))
    write_copy(tmp_path, 2, OnDisk([*shared, *chain(50, (0, 9), mark="old")], high_watermark=45))
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1], 1))
    out = said(tmp_path)
    assert out.code == 1
    assert "50\N{EN DASH}94 have other records" in out.out
    assert "kdump export --lost --leader 1" in out.out
    (pair,) = rows(tmp_path, "pair")
    assert (pair["relation"], pair["sameUpTo"], pair["brokers"]) == ("epoch", 50, [1, 2])
    assert choice(tmp_path, 2)["standing"] == "unclean"
    assert choice(tmp_path, 1)["lost"]["records"] == 45
    assert choice(tmp_path, 2)["lost"]["records"] == 20
    assert choice(tmp_path, 2)["lost"]["possiblyAcknowledgedByAll"] == 20


def test_a_leader_with_a_hole_loses_what_it_cannot_serve(tmp_path: Path) -> None:
    """Followers cut nothing there, but no consumer gets it; a copy with the same hole loses nothing more."""
    hole = [batch for batch in SHARED if not 50 <= batch.base < 65]
    for broker, batches in ((1, hole), (2, LONGER), (3, LONGER)):
        write_copy(tmp_path, broker, OnDisk(batches, high_watermark=200))
    write_metadata(tmp_path, 1, partition_fields([1, 2, 3], [1, 2, 3], 1))
    lost = choice(tmp_path, 1)["lost"]
    assert (lost["records"], lost["committed"]) == (15 + 40, 15)
    ranges = [(each["copy"], each["isCut"], each["firstOffset"], each["lastOffset"]) for each in lost["ranges"]]
    assert ranges == [(2, False, 50, 64), (2, True, 200, 239)]
    assert [each["cutAt"] for each in choice(tmp_path, 1)["copies"]] == [200, 200]
    assert choice(tmp_path, 2)["lost"]["records"] == 0
    assert "leader 1: nobody can read 50\N{EN DASH}64, which copy 2 has" in said(tmp_path).out
    done = kdump(tmp_path, "export", "--lost", "--leader", "1", "b1", "b2", "b3", "--to", "lost")
    assert done.code == 0
    written = (tmp_path / "lost" / "orders-0.jsonl").read_text().splitlines()
    assert [json.loads(line)["offset"] for line in written] == [*range(50, 65), *range(200, 240)]


def test_a_history_that_a_follower_keeps_without_its_epochs_is_lost_too(tmp_path: Path) -> None:
    """It has lost its leader epochs below offset 70, so that it cuts at the leader's end, not where they part."""
    shared = chain(0, (1, 4))
    write_copy(tmp_path, 1, OnDisk([*shared, *chain(20, (2, 8))]))
    write_copy(tmp_path, 2, OnDisk([*shared, *chain(20, (3, 12))], epochs=[(3, 70)]))
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 1))
    found = choice(tmp_path, 1)
    assert [each["cutAt"] for each in found["copies"]] == [60]
    assert [(each["isCut"], each["firstOffset"], each["lastOffset"]) for each in found["lost"]["ranges"]] == [
        (False, 20, 59),
        (True, 60, 79),
    ]


def test_records_before_an_unclean_election_may_have_been_acknowledged_by_all(tmp_path: Path) -> None:
    """The leader of epoch 0 was alone in sync when it died, and one that was behind was elected."""
    shared = chain(0, (0, 10))
    write_copy(tmp_path, 1, OnDisk([*shared, *chain(50, (1, 4))], high_watermark=40))
    write_copy(tmp_path, 2, OnDisk([*shared, *chain(50, (0, 9), mark="old")], high_watermark=40))
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1], 1, leaderRecoveryState=1))
    lost = choice(tmp_path, 1)["lost"]
    assert (lost["records"], lost["committed"], lost["possiblyAcknowledgedByAll"]) == (45, 0, 45)
    assert "45 records (45 perhaps acknowledged by all)" in said(tmp_path).out


def test_without_metadata_nothing_is_said_of_acknowledgements(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(SHARED))
    write_copy(tmp_path, 2, OnDisk(LONGER))
    out = said(tmp_path).out
    assert "1            ISR unknown  40 records\n" in out
    assert "acks=1" not in out


def test_a_single_copy_is_not_called_identical(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(SHARED))
    assert said(tmp_path).out == "OK. 1 partition: 1 with one copy only, nothing to compare it with.\n"
    write_copy(tmp_path, 1, OnDisk(SHARED), name="orders-1")
    write_copy(tmp_path, 2, OnDisk(SHARED), name="orders-1")
    assert said(tmp_path, "--partition", "1").out == "OK. 1 partition: all copies are identical.\n"


def test_a_reassignment_is_told(tmp_path: Path) -> None:
    for broker in (1, 2, 3):
        write_copy(tmp_path, broker, OnDisk(SHARED if broker == 3 else chain(0, (0, 20))))
    fields = partition_fields([2, 1, 3], [3], 3, addingReplicas=[2], removingReplicas=[3])
    write_metadata(tmp_path, 1, fields)
    out = said(tmp_path).out
    assert "a reassignment adds 2" in out
    assert "a reassignment removes 3: the copy there goes when it is done" in " ".join(out.split())
    (row,) = rows(tmp_path, "partition")
    assert (row["addingReplicas"], row["removingReplicas"]) == ([2], [3])


def test_the_newest_metadata_counts(tmp_path: Path) -> None:
    for broker in (1, 2):
        write_copy(tmp_path, broker, OnDisk(SHARED))
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 1))
    write_metadata(tmp_path, 2, partition_fields([1, 2], [2], 2), extra=5)
    (partition,) = rows(tmp_path, "partition")
    assert (partition["isr"], partition["leader"], partition["isUnderReplicated"]) == ([2], 2, True)
    assert partition["metadataPath"] == "b2"


def test_eligible_leaders_and_min_insync(tmp_path: Path) -> None:
    for broker in (1, 2, 3):
        write_copy(tmp_path, broker, OnDisk(SHARED))
    fields = partition_fields([1, 2, 3], [], -1, eligibleLeaderReplicas=[2], lastKnownElr=[])
    write_metadata(tmp_path, 1, fields, elr=True, config={"min.insync.replicas": "2"})
    (partition,) = rows(tmp_path, "partition")
    assert (partition["eligibleLeaderReplicas"], partition["minInsyncReplicas"]) == ([2], 2)
    assert partition["isUnderMinIsr"] is True
    assert [row["standing"] for row in rows(tmp_path, "choice")] == ["unclean", "eligible", "unclean"]
    assert "below min.insync.replicas (2)" in said(tmp_path, "-v").out


def test_a_broker_that_lost_everything(tmp_path: Path) -> None:
    for broker in (1, 2, 3):
        write_copy(tmp_path, broker, OnDisk(SHARED, high_watermark=150))
    write_metadata(tmp_path, 1, partition_fields([3, 1, 2], [3, 1, 2], 3))
    shutil.rmtree(tmp_path / "b3" / "orders-0")
    assert said(tmp_path).code == 1
    lost = choice(tmp_path, 3)
    assert (lost["copy"], lost["lost"]["records"], lost["lost"]["committed"]) == (None, 200, 150)
    assert [copy["cutAt"] for copy in lost["copies"]] == [0, 0]
    for path in (tmp_path / "b3").iterdir():
        path.unlink()
    empty = said(tmp_path)
    assert "b3 is empty" in empty.err
    assert empty.code == 1
    assert "200 records (150 committed" in empty.out, "the only replica that it can be of"
    unknown = said(tmp_path, "b1", "b2", "-v")
    assert unknown.code == 0, "nobody knows what a disk has that is not given"
    assert "not given  the log directories of broker 3" in unknown.out


def test_without_metadata(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(SHARED))
    write_copy(tmp_path, 2, OnDisk(LONGER))
    out = said(tmp_path)
    assert "replicas   unknown (no cluster metadata in these PATHs)" in out.out
    assert {row["standing"] for row in rows(tmp_path, "choice")} == {None}


def test_without_metadata_the_newer_history_is_the_better_one(tmp_path: Path) -> None:
    """The tail of a dead leader may be longer."""
    shared = chain(0, (0, 10))
    write_copy(tmp_path, 1, OnDisk([*shared, *chain(50, (0, 9), mark="old")]))
    write_copy(tmp_path, 2, OnDisk([*shared, *chain(50, (1, 4))]))
    assert "Let broker 2 lead" in said(tmp_path).out


def test_what_cannot_be_parsed_is_said(tmp_path: Path) -> None:
    for broker in (1, 2):
        write_copy(tmp_path, broker, OnDisk(SHARED))
    (tmp_path / "b1" / "replication-offset-checkpoint").write_text("garbage")
    (tmp_path / "b2" / "meta.properties").write_text("version=garbage")
    out = said(tmp_path)
    assert out.code == 1
    assert "b1/replication-offset-checkpoint" in out.err
    assert "b2/meta.properties" in out.err


def test_partition_directories(behind: Path) -> None:
    out = said(behind, "b1/orders-0", "b2/orders-0")
    assert out.code == 0
    assert "orders-0: 2 copies, identical" in out.out
    assert "not given  the log directories of broker 3" in out.out


def test_one_name_of_two_topics(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(SHARED))
    write_copy(tmp_path, 2, OnDisk(SHARED, topic_id=bytes(15) + b"\x01"))
    assert len(rows(tmp_path, "partition")) == 2
    assert rows(tmp_path, "pair") == []
    assert "another topic has the same name" in said(tmp_path, "-v").out


def test_copies_of_two_clusters_are_not_compared(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(SHARED))
    write_copy(tmp_path, 2, OnDisk(SHARED, cluster="b3RoZXIgY2x1c3RlciBpZA"))
    out = said(tmp_path)
    assert "of 2 clusters" in out.err
    assert rows(tmp_path, "pair") == []


def test_a_broker_that_has_a_partition_twice(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(SHARED))
    shutil.copytree(tmp_path / "b1", tmp_path / "b2")
    out = said(tmp_path)
    assert out.code == 1
    assert "broker 1 has this partition in b1/orders-0 too: with both it does not start" in out.err


def test_directories_that_nobody_serves_are_named(behind: Path) -> None:
    shutil.copytree(behind / "b1" / "orders-0", behind / "b1" / f"orders-0.{'0' * 32}-future")
    assert "not compared: b1/orders-0." in said(behind).out


def test_a_copy_that_cannot_be_loaded_cannot_lead(behind: Path) -> None:
    (behind / "b2" / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\nx y\n")
    assert said(behind).code == 1
    assert [row["leader"] for row in rows(behind, "choice")] == [1, 3]
    assert "the broker cannot load it" in said(behind).out


@pytest.mark.parametrize("path", ["b1/orders-0/00000000000000000000.log", "nothing"])
def test_what_is_no_directory(behind: Path, path: str) -> None:
    out = said(behind, path) if path.startswith("b") else kdump(behind, "replicas", path)
    assert out.code in (2, 3)
    assert "Traceback" not in out.err


def test_a_topic_that_is_not_there(behind: Path) -> None:
    out = said(behind, "--topic", "clicks")
    assert out.code == 3
    assert "no partition has a topic that matches clicks" in out.err


def test_what_a_leader_loses_is_written_down(tmp_path: Path) -> None:
    """Each record once, whichever copies have it; none that the leader has."""
    shared = chain(0, (0, 10))
    old = chain(50, (0, 9), mark="old")
    write_copy(tmp_path, 1, OnDisk([*shared, *chain(50, (1, 4))]))
    write_copy(tmp_path, 2, OnDisk([*shared, *old]))
    write_copy(tmp_path, 3, OnDisk([*shared, *old[:5]], roll=[60]))
    done = kdump(tmp_path, "export", "--lost", "--leader", 1, "b1", "b2", "b3", "--to", "out")
    assert done.code == 0, done.err
    assert "45 records of 1 partition would be lost if broker 1 leads" in done.out
    lines = (tmp_path / "out" / "orders-0.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["offset"] for record in records] == list(range(50, 95))
    assert {record["value"] for record in records} == {f"old0:{offset}" for offset in range(50, 95)}
    other = kdump(tmp_path, "export", "--lost", "--leader", 2, "b1", "b2", "b3", "--to", "out2")
    assert "20 records" in other.out
    (tmp_path / "again").mkdir()
    appended = kdump(tmp_path, "append", "again/orders-0", "--create", stdin="\n".join(lines))
    assert "45 records" in appended.out, appended.err


def test_export_of_what_is_lost_is_careful(behind: Path) -> None:
    nothing = kdump(behind, "export", "--lost", "--leader", 1, "b1", "b2", "b3", "--to", "out")
    assert nothing.out == "Nothing to do. If broker 1 leads, no record is lost.\n"
    assert list((behind / "out").iterdir()) == []
    assert kdump(behind, "export", "--lost", "b1", "--to", "out").code == 2
    (behind / "out" / "x").touch()
    assert kdump(behind, "export", "--lost", "--leader", 3, "b1", "b3", "--to", "out").code == 4
    assert kdump(behind, "export", "--lost", "--leader", 9, "b1", "b3", "--to", "out3").code == 3


def test_nothing_is_written(behind: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in behind.rglob("*")}
    said(behind)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in behind.rglob("*")} == before


def _keyed(folder: Path, records: list[tuple[int, bytes, bytes | None]]) -> None:
    """Let the partition's only segment have these records (offset, key, value), a batch each."""
    data = [
        encode_batch([NewRecord(offset, 1_700_000_000_000, key, value, ())], NewBatch(leader_epoch=0))
        for offset, key, value in records
    ]
    write_segment(folder, 0, data)


@pytest.mark.parametrize(
    ("second", "differing"),
    [
        # cleaned farther: older values are gone, a tombstone too
        ([(3, b"a", b"2"), (5, b"b", b"3")], []),
        # the value that a later one replaced is still there
        ([(0, b"a", b"1"), (3, b"a", b"2"), (4, b"c", None), (5, b"b", b"3")], []),
        # a latest value is another one, or gone
        ([(3, b"a", b"other"), (4, b"c", None), (5, b"b", b"3")], [3]),
        ([(4, b"c", None), (5, b"b", b"3")], [3]),
    ],
)
def test_compacted_copies_are_compared_by_keys(
    second: list[tuple[int, bytes, bytes | None]], differing: list[int], tmp_path: Path
) -> None:
    first = [(0, b"a", b"1"), (1, b"c", b"0"), (3, b"a", b"2"), (4, b"c", None), (5, b"b", b"3")]
    for broker, records in ((1, first), (2, second)):
        _keyed(write_copy(tmp_path, broker, OnDisk(chain(0, (0, 1)), high_watermark=6)), records)
        write_metadata(tmp_path, broker, partition_fields([1, 2], [1, 2], 1), config={"cleanup.policy": "compact"})
        (tmp_path / f"b{broker}" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    (pair,) = rows(tmp_path, "pair")
    assert (pair["isEquivalent"], pair["keys"], pair["differingKeyOffsets"]) == (not differing, 3, differing)
    assert said(tmp_path).code == (1 if differing else 0)


def test_a_history_of_a_leader_without_its_epochs_is_lost_too(tmp_path: Path) -> None:
    """The follower ends before the first epoch that the leader knows, and cuts nothing."""
    shared = chain(0, (1, 4))
    write_copy(tmp_path, 1, OnDisk([*shared, *chain(20, (3, 12))], epochs=[(3, 70)]))
    write_copy(tmp_path, 2, OnDisk([*shared, *chain(20, (2, 8))], high_watermark=60))
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 1))
    found = choice(tmp_path, 1)
    assert [each["cutAt"] for each in found["copies"]] == [None]
    assert [(each["isCut"], each["firstOffset"], each["lastOffset"]) for each in found["lost"]["ranges"]] == [
        (False, 20, 59)
    ]


def test_the_same_records_under_another_epoch_are_not_lost(tmp_path: Path) -> None:
    """No CRC covers the leader epoch of a batch: a flipped bit in it is no other history."""
    write_copy(tmp_path, 1, OnDisk(SHARED))
    folder = write_copy(tmp_path, 2, OnDisk(SHARED))
    (log,) = folder.glob("*.log")
    data = bytearray(log.read_bytes())
    data[15] ^= 1
    log.write_bytes(data)
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 1))
    assert choice(tmp_path, 1)["lost"]["records"] == 0


def test_of_a_batch_below_the_leader_s_start_only_the_rest_is_lost(tmp_path: Path) -> None:
    """Nothing is cut, and the leader never had what is below its log start."""
    shared = chain(0, (1, 4))
    write_copy(tmp_path, 1, OnDisk([*shared, *chain(20, (3, 12))], epochs=[(3, 70)], log_start=27))
    write_copy(tmp_path, 2, OnDisk([*shared, *chain(20, (2, 8))], high_watermark=60))
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 1))
    (lost,) = choice(tmp_path, 1)["lost"]["ranges"]
    assert (lost["isCut"], lost["firstOffset"], lost["lastOffset"], lost["records"]) == (False, 27, 59, 33)


def test_a_batch_across_a_log_start_counts_once(tmp_path: Path) -> None:
    """DeleteRecords went to 7 on one disk, and the other has no entry for it any more: each record counts once."""
    write_copy(tmp_path, 1, OnDisk(SHARED, high_watermark=200, log_start=7))
    write_copy(tmp_path, 2, OnDisk(SHARED, high_watermark=200))
    write_metadata(tmp_path, 1, partition_fields([1, 2, 3], [1, 2], 1))
    assert choice(tmp_path, 3)["lost"]["records"] == 200
    shutil.rmtree(tmp_path / "b2")
    lost = choice(tmp_path, 3)["lost"]
    assert (lost["records"], lost["ranges"][0]["firstOffset"]) == (193, 7), "what was deleted is not lost"


def test_of_three_copies_the_bytes_that_two_have_count(tmp_path: Path) -> None:
    """The leader's copy was written to offline: its CRCs hold, and its epochs are those of the others."""
    odd = [replace(batch, mark="odd") if 20 <= batch.base < 30 else batch for batch in SHARED]
    for broker, batches in ((1, odd), (2, SHARED), (3, SHARED)):
        write_copy(tmp_path, broker, OnDisk(batches, high_watermark=200))
        write_metadata(tmp_path, broker, partition_fields([1, 2, 3], [1, 2, 3], 1))
    out = said(tmp_path).out
    assert "Let broker 2 lead" in out
    assert [line.split(maxsplit=5)[5] for line in out.splitlines() if line[:2] in ("1 ", "2 ", "3 ")][:3] == [
        "20\N{EN DASH}29 have other bytes", "complete", "complete",
    ]  # fmt: skip
    (finding,) = kdump(tmp_path, "verify", "b1", "b2", "b3", "--format", "jsonl").of_type("finding")
    assert (finding["code"], finding["path"]) == ("KD-COPY-BYTES", "b1/orders-0")
