"""The default strategy of `kdump repair` drops no valid batch; what needs a decision is listed and left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.checksums import crc32c
from kdump.formats.uuids import format_uuid
from tests.commands.running import Run
from tests.repair.damaged import BASES, STARTUP, edit, flip, name, segment_bytes
from tests.repair.salvaging import content, errors
from tests.topics.building import ORDERS_ID, cluster_directory


@pytest.fixture
def partition(sound: Path, tmp_path: Path) -> Path:
    """A sound partition of a broker that was stopped orderly."""
    data = tmp_path / "data"
    shutil.copytree(sound / "orders-0", data / "orders-0")
    (data / names.META_PROPERTIES).write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    (data / names.CLEAN_SHUTDOWN).write_text("")
    (data / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 59\n")
    return data / "orders-0"


@pytest.fixture
def config(tmp_path: Path) -> list[str]:
    """The settings and the clock that the partition was made with."""
    path = tmp_path / "topic.properties"
    path.write_text("index.interval.bytes=300\nsegment.index.bytes=2000\n")
    return ["--config", str(path), "--now", str(STARTUP.now)]


def zeroed(partition: Path) -> None:
    """Destroy the bytes of a batch in the middle."""
    edit(name(20, "log"), lambda data: data[:100] + bytes(40) + data[140:])(partition)


def unreadable(data: bytes) -> bytes:
    """Spoil the records of the first batch, with a CRC that holds."""
    end = 12 + int.from_bytes(data[8:12], "big")
    spoiled = data[21:61] + b"\xff" * 20 + data[81:end]
    return data[:17] + crc32c(spoiled).to_bytes(4, "big") + spoiled + data[end:]


class TestDecide:
    def test_one_flipped_bit(self, run: Run, partition: Path, config: list[str]) -> None:
        edit(name(20, "log"), flip(100))(partition)
        before = content(partition)
        for more in ((), ("--apply",)):
            assert run("repair", partition.parent, *more, *config) == 1
            assert content(partition) == before
        text = run.out
        assert text.startswith("Decide: 1 partition\n")
        assert "replicas: unknown (no cluster metadata on these disks)" in text
        ways = [line.split()[1] for line in text.splitlines() if line.strip().startswith("loses")]
        assert ways == ["nothing", "nothing", "nothing", "2", "38"]
        said = ["no repair: start while another in-sync replica", "--from OTHER ", "--fix-bit", "--strategy salvage"]
        assert [text.index(way) for way in said] == sorted(text.index(way) for way in said)
        assert text.index(said[-1]) < text.index("--strategy truncate")
        assert "Nothing was changed. 1 partition needs a decision.\n" in text
        assert text.endswith(f"\nNext: decide for orders-0: kdump repair {partition} OPTION\n")

    def test_what_no_bit_explains(self, run: Run, partition: Path, config: list[str]) -> None:
        zeroed(partition)
        assert run("repair", partition, *config) == 1
        assert "--fix-bit" not in run.out
        assert run("repair", partition, "--fix-bit", "--apply", *config) == 3
        assert "no single flipped bit explains the damage at byte 0" in run.err
        assert "Nothing to do" not in run.out

    def test_the_last_batch_is_not_cut_unasked(self, run: Run, partition: Path, config: list[str]) -> None:
        """Its CRC fails, and no valid batch follows: a flipped bit can still be flipped back."""
        edit(name(40, "log"), lambda data: data[:-3] + bytes((data[-3] ^ 16,)) + data[-2:])(partition)
        assert run("repair", partition, *config) == 1
        assert "Decide: 1 partition" in run.out

    def test_rows(self, run: Run, partition: Path, config: list[str]) -> None:
        edit(name(20, "log"), flip(100))(partition)
        assert run("repair", partition, "--format", "jsonl", *config) == 1
        (row,) = run.of_type("decision")
        offers = [(offer["way"], offer["losesRecords"]) for offer in row["offers"]]
        assert offers == [("replica", 0), ("copy", 0), ("fix-bit", 0), ("salvage", 2), ("truncate", 38)]
        assert row["damaged"][0]["flippedBit"]["position"] == 100
        (row,) = run.of_type("partition")
        assert (row["isDecisionNeeded"], row["operations"], row["dropped"]["records"]) == (True, 0, 0)

    def test_what_salvage_loses_is_counted_with_the_records(
        self, run: Run, partition: Path, config: list[str]
    ) -> None:
        """A batch whose CRC holds and whose records cannot be read goes, too: the way out says so beforehand."""
        zeroed(partition)
        edit(name(40, "log"), unreadable)(partition)
        run("repair", partition, "--format", "jsonl", *config)
        (row,) = run.of_type("decision")
        assert [(each["file"], each["firstOffset"], each["lastOffset"]) for each in row["damaged"]] == [
            (name(20, "log"), 20, 21), (name(40, "log"), 40, 41)
        ]
        (said,) = (offer["losesRecords"] for offer in row["offers"] if offer["way"] == "salvage")
        assert said == 4

    def test_others_are_repaired(self, run: Run, partition: Path, config: list[str]) -> None:
        other = partition.parent / "orders-1"
        shutil.copytree(partition, other)
        zeroed(partition)
        before = content(partition)
        edit(name(40, "log"), lambda data: data[:-10])(other)
        assert run("repair", partition.parent, "--apply", *config) == 1
        assert "Done. 1 partition changed, no valid batch dropped, 1 needs a decision." in run.out
        assert content(partition) == before
        assert errors(other) == []


class TestReplicas:
    @pytest.fixture
    def damaged(self, partition: Path, tmp_path: Path) -> Path:
        """The damaged partition of broker 1, beside metadata by which broker 2 alone is in sync."""
        data = cluster_directory(tmp_path / "broker")
        shutil.rmtree(data / "orders-0")
        shutil.copytree(partition, data / "orders-0")
        zeroed(data / "orders-0")
        topic_id = format_uuid(ORDERS_ID)
        (data / "orders-0" / names.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {topic_id}")
        return data / "orders-0"

    def test_they_are_listed(self, run: Run, damaged: Path, config: list[str]) -> None:
        assert run("repair", damaged, *config) == 1
        assert "replicas: 1, 2; in sync: 2\n" in run.out
        assert "no repair: start while broker 2 runs" in run.out
        assert "needs --only-copy" in run.out
        assert "needs --accept-loss 36" in run.out

    def test_salvage_is_refused_while_others_are_in_sync(self, run: Run, damaged: Path, config: list[str]) -> None:
        before = content(damaged)
        salvage = ["repair", damaged, "--strategy", "salvage", *config]
        assert run(*salvage) == 1
        text = " ".join(run.out.split())
        assert "broker 2 is in sync for orders-0; the leader would never send what is given up here again" in text
        assert "--apply needs --only-copy, if its copy is gone" in text
        assert "Next: the same command with --apply" not in text
        assert text.index("without --strategy lists the ways that lose nothing") < text.index("with --apply")
        assert run(*salvage, "--apply") == 4
        assert "Refused: broker 2 is in sync for orders-0; the leader would never send" in run.err
        assert content(damaged) == before
        assert run(*salvage, "--apply", "--only-copy") == 0
        assert content(damaged) != before


class TestFixBit:
    def test_nothing_else_changes(self, run: Run, partition: Path, config: list[str]) -> None:
        before = content(partition)
        edit(name(20, "log"), flip(100))(partition)
        assert run("repair", partition, "--fix-bit", *config) == 1
        assert "of byte 100" in run.out
        assert "other damage looks the same in " in run.out
        assert "in about 1 of " in run.out
        assert run("repair", partition, "--fix-bit", "--apply", *config) == 0
        assert content(partition) == before
        assert errors(partition) == []
        assert run("repair", partition, "--fix-bit", *config) == 0
        assert run.out == "Nothing to do.\n"

    def test_it_is_a_strategy(self, run: Run, partition: Path) -> None:
        assert run("repair", partition, "--fix-bit", "--strategy", "salvage") == 2


class TestSafe:
    def test_a_sound_directory(self, run: Run, partition: Path, config: list[str]) -> None:
        assert run("repair", partition.parent, *config) == 0
        assert run.out == "Nothing to do.\n"

    @pytest.mark.parametrize("strategy", ["safe", "truncate", "salvage"])
    def test_what_a_broker_does_at_every_start_is_no_repair(
        self, run: Run, partition: Path, config: list[str], strategy: str
    ) -> None:
        (partition / f"{name(0, 'log')}.deleted").write_bytes(segment_bytes(0))
        (partition / f"{name(0, 'index')}.deleted").write_bytes(b"")
        assert run("repair", partition, "--strategy", strategy, *config) == 0

    @pytest.mark.parametrize("strategy", ["safe", "truncate", "salvage"])
    def test_sound_indexes_of_other_writers_stay(
        self, run: Run, partition: Path, config: list[str], strategy: str
    ) -> None:
        """A follower writes fewer entries than a rebuild does, and theirs are as good."""
        for base in BASES:
            edit(name(base, "index"), lambda data: data[:8])(partition)
        edit(name(40, "index"), lambda data: data[8:] + data[:8])(partition)
        before = content(partition)
        assert run("repair", partition, "--strategy", strategy, *config) in (0, 1)
        edit(name(20, "timeindex"), lambda data: data[12:24] + data[:12] + data[24:])(partition)
        assert run("repair", partition, "--strategy", strategy, "--apply", *config) == 0
        after = content(partition)
        assert [file for file in before if after[file] != before[file] and file.endswith(".index")] == []
        assert errors(partition) == []
        assert run("repair", partition, "--strategy", strategy, *config) == 0

    @pytest.mark.parametrize(
        "tail", [b"\0" * 900, segment_bytes(60)[:50], b"\xff" * 90], ids=["zeros", "half a batch", "garbage"]
    )
    def test_an_incomplete_end_is_cut(self, run: Run, partition: Path, config: list[str], tail: bytes) -> None:
        before = content(partition)
        edit(name(40, "log"), lambda data: data + tail)(partition)
        assert run("repair", partition, "--apply", *config) == 0
        assert content(partition)[name(40, "log")] == before[name(40, "log")]
        assert run("repair", partition, *config) == 0

    def test_leader_epochs_are_rebuilt(self, run: Run, partition: Path, config: list[str]) -> None:
        before = content(partition)
        (partition / "leader-epoch-checkpoint").write_text("garbage")
        assert run("repair", partition, "--apply", *config) == 0
        assert content(partition) == before

    def test_an_unknown_strategy(self, run: Run, partition: Path) -> None:
        assert run("repair", partition, "--strategy", "kafke") == 2
