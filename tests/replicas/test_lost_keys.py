"""What a choice of leader loses of a compacted topic counts in keys, however far each broker's cleaner has been."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.checkpoints import EpochEntry, format_leader_epochs
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.replication import compacted
from tests.agreement.running import kdump
from tests.commands.logs import write_segment
from tests.replicas.building import OnDisk, chain, partition_fields, write_copy, write_metadata
from tests.sampling import sampled

COMPACT = {"cleanup.policy": "compact"}
NOW = 1_700_000_000_000


class Put(NamedTuple):
    """A record of a key; `value` None is a tombstone."""

    offset: int
    epoch: int
    key: str
    value: str | None


@dataclass
class Keyed:
    """A copy: what its log ever was, and what its cleaner has left of it below `cleaned`."""

    history: Sequence[Put]
    kept: Sequence[Put]
    cleaned: int = 0
    high_watermark: int | None = None

    @property
    def end(self) -> int:
        return self.history[-1].offset + 1


def write(root: Path, broker: int, copy: Keyed) -> None:
    folder = write_copy(root, broker, OnDisk(chain(0, (0, 1)), high_watermark=copy.high_watermark))
    data = []
    for each in copy.kept:
        value = None if each.value is None else each.value.encode()
        record = NewRecord(each.offset, NOW + each.offset, each.key.encode(), value, ())
        data.append(encode_batch([record], NewBatch(leader_epoch=each.epoch)))
    write_segment(folder, 0, data)
    epochs = {each.epoch: each.offset for each in reversed(copy.history)}
    entries = [EpochEntry(epoch, start) for epoch, start in sorted(epochs.items())]
    (folder / "leader-epoch-checkpoint").write_bytes(format_leader_epochs(entries))
    home = root / f"b{broker}"
    (home / "recovery-point-offset-checkpoint").write_text(f"0\n1\norders 0 {copy.end}\n")
    if copy.cleaned:
        (home / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {copy.cleaned}\n")


def cluster(root: Path, *copies: Keyed, isr: Sequence[int] = (1, 2, 3)) -> list[str]:
    """Write a copy for each of brokers 1 to 3, or fewer; the names of their log directories."""
    brokers = range(1, len(copies) + 1)
    for broker, copy in zip(brokers, copies, strict=True):
        write(root, broker, copy)
    write_metadata(root, 1, partition_fields(list(brokers), list(isr[: len(copies)]), 1), config=COMPACT)
    return [f"b{broker}" for broker in brokers]


def choices(root: Path, brokers: Iterable[str]) -> dict[int, dict[str, Any]]:
    said = kdump(root, "replicas", *brokers, "--format", "jsonl")
    assert said.code in (0, 1), said.err
    return {row["leader"]: row["lost"] for row in said.of_type("choice")}


def puts(start: int, epoch: int, text: str) -> list[Put]:
    """Records of one-letter keys from an offset on; an upper-case letter is the key's tombstone."""
    return [
        Put(offset, epoch, letter.lower(), None if letter.isupper() else f"{epoch}:{offset}")
        for offset, letter in enumerate(text, start)
    ]


def uncleaned(*parts: Sequence[Put], mark: int | None = None) -> Keyed:
    history = [each for part in parts for each in part]
    return Keyed(history, history, high_watermark=mark)


SHARED = puts(0, 0, "abcdabcd")


def test_a_key_counts_once_and_only_by_its_latest_record(tmp_path: Path) -> None:
    """Of the tail "aabbc" three keys lose their latest record: the cleaner would not keep the others either."""
    longer = uncleaned(SHARED, puts(8, 0, "aabbc"), mark=10)
    brokers = cluster(tmp_path, longer, uncleaned(SHARED, mark=8), longer)
    lost = choices(tmp_path, brokers)
    assert {leader: each["keys"] for leader, each in lost.items()} == {1: 0, 2: 3, 3: 0}
    assert (lost[2]["records"], lost[2]["committed"]) == (5, 2)
    assert lost[2]["committedKeys"] == 1  # a's latest, at 9; b's and c's were above the high watermark
    (one,) = lost[2]["ranges"]
    assert (one["copy"], one["isCut"], one["firstOffset"], one["lastOffset"], one["keys"]) == (1, True, 8, 12, 3)
    text = kdump(tmp_path, "replicas", *brokers).out
    assert "3 keys (1 committed)" in text
    assert "(5 records, the latest of 3 keys, " in " ".join(text.split())


def test_a_record_that_the_leader_supersedes_is_not_lost(tmp_path: Path) -> None:
    """Broker 1 leads a newer epoch: a and b have a later record there, c has not; d's tombstone is lost."""
    newer = uncleaned(SHARED, puts(8, 2, "ab"))
    older = uncleaned(SHARED, puts(8, 1, "abcabD"))
    lost = choices(tmp_path, cluster(tmp_path, newer, older, isr=(1,)))
    assert (lost[1]["records"], lost[1]["keys"]) == (6, 2)
    assert lost[2]["keys"] == 2, "the newer epoch's a and b, whatever their offsets"
    done = kdump(tmp_path, "export", "--lost", "--leader", "1", "b1", "b2", "--to", "lost")
    assert "2 records" in done.out
    lines = map(json.loads, (tmp_path / "lost" / "orders-0.jsonl").read_text().splitlines())
    assert [(each["offset"], each["key"], each["value"]) for each in lines] == [(10, "c", "1:10"), (13, "d", None)]


def test_where_all_is_superseded_nothing_is_lost(tmp_path: Path) -> None:
    newer = uncleaned(SHARED, puts(8, 2, "ab"))
    brokers = cluster(tmp_path, newer, uncleaned(SHARED, puts(8, 1, "abX")), isr=(1,))
    lost = choices(tmp_path, brokers)[1]
    assert (lost["records"], lost["keys"]) == (3, 0), "x was deleted, and the leader never had it"
    out = kdump(tmp_path, "replicas", *brokers).out
    assert "nothing (3 records of keys with later ones)" in out
    assert "No choice keeps everything" not in out
    done = kdump(tmp_path, "export", "--lost", "--leader", "1", *brokers, "--to", "lost")
    assert done.out == "Nothing to do. If broker 1 leads, no record is lost.\n"


def test_a_broker_without_a_log_loses_each_live_key(tmp_path: Path) -> None:
    copy = uncleaned(SHARED, puts(8, 0, "Da"))
    write(tmp_path, 1, copy)
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 1), config=COMPACT)
    assert choices(tmp_path, ["b1"])[2]["keys"] == 3


def test_a_key_that_a_leader_s_cleaned_log_has_not_is_lost(tmp_path: Path) -> None:
    """A leader never sends it again: a copy that has it keeps it for itself."""
    kept = [each for each in SHARED if each.offset >= 4]
    whole = Keyed(SHARED, kept, 8, high_watermark=8)
    hole = Keyed(SHARED, [each for each in kept if each.key != "c"], 8, high_watermark=8)
    brokers = cluster(tmp_path, whole, hole)
    lost = choices(tmp_path, brokers)
    assert (lost[1]["keys"], lost[2]["keys"], lost[2]["committedKeys"]) == (0, 1, 1)
    (one,) = lost[2]["ranges"]
    assert (one["isCut"], one["firstOffset"], one["lastOffset"], one["records"]) == (False, 6, 6, 1)
    assert "lacks the latest records of some keys, which copy 1 has" in " ".join(
        kdump(tmp_path, "replicas", *brokers).out.split()
    )
    kdump(tmp_path, "export", "--lost", "--leader", "2", *brokers, "--to", "lost")
    (line,) = (tmp_path / "lost" / "orders-0.jsonl").read_text().splitlines()
    assert (json.loads(line)["offset"], json.loads(line)["key"]) == (6, "c")


def test_a_copy_that_is_behind_has_older_records_by_right(tmp_path: Path) -> None:
    """The leader's cleaner took what later records replaced, and a tombstone with the key it deleted."""
    history = [*SHARED, *puts(8, 0, "abC"), *puts(11, 0, "dd")]
    cleaned = Keyed(history, [each for each in history if each.offset in (8, 9, 12)], 12)
    brokers = cluster(tmp_path, cleaned, uncleaned(SHARED), isr=(1,))
    said = kdump(tmp_path, "replicas", *brokers, "--format", "jsonl")
    (pair,) = said.of_type("pair")
    assert pair["isEquivalent"] is True, pair
    assert choices(tmp_path, brokers)[1]["keys"] == 0
    assert choices(tmp_path, brokers)[2]["keys"] == 3, "nothing on the disks tells that c was deleted"


def test_too_many_keys_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longer = uncleaned(SHARED, puts(8, 0, "abc"))
    brokers = cluster(tmp_path, longer, uncleaned(SHARED))
    monkeypatch.setattr(compacted, "MAX_KEYS", 2)
    lost = choices(tmp_path, brokers)[2]
    assert (lost["keys"], lost["records"]) == (None, 3)
    assert "keys not counted: more than" in kdump(tmp_path, "replicas", *brokers).out


def test_records_of_aborted_transactions_and_markers_are_no_latest_records(tmp_path: Path) -> None:
    shared = puts(0, 0, "ab")
    brokers = cluster(tmp_path, uncleaned(shared), uncleaned(shared))
    data = [encode_batch([NewRecord(0, NOW, b"a", b"0:0", ())], NewBatch(leader_epoch=0))]
    data += [encode_batch([NewRecord(1, NOW + 1, b"b", b"0:1", ())], NewBatch(leader_epoch=0))]
    sent = NewBatch(attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0, leader_epoch=0)
    data += [encode_batch([NewRecord(2, NOW, b"a", b"2", ())], sent)]
    abort = sent._replace(attributes=TRANSACTIONAL | CONTROL, base_sequence=-1)
    data += [encode_batch([NewRecord(3, NOW, bytes(4), bytes(6), ())], abort)]
    write_segment(tmp_path / "b2" / "orders-0", 0, data)
    lost = choices(tmp_path, brokers)[1]
    assert lost["keys"] == 0, lost


# --- against what the logs ever were ---------------------------------------------------------------------------------


def cleaned_copy(history: Sequence[Put], up_to: int, *, drops_tombstones: bool) -> Keyed:
    latest = {each.key: each.offset for each in history if each.offset < up_to}

    def stays(each: Put) -> bool:
        if each.offset >= up_to:
            return True
        return latest[each.key] == each.offset and not (drops_tombstones and each.value is None)

    return Keyed(history, [each for each in history if stays(each)], up_to)


def random_puts(chance: random.Random, start: int, epoch: int, count: int) -> list[Put]:
    return puts(start, epoch, "".join(chance.choice("abcdefABC") for _ in range(count)))


def lost_of(leader: Keyed, others: Sequence[Keyed]) -> int:
    """How many keys have, in another log, a later record than ever was in the leader's."""
    mine = {each.key: each for each in leader.history}
    lost = set()
    for other in others:
        for key, put in {each.key: each for each in other.history}.items():
            own = mine.get(key)
            if put.value is None and (own is None or own.value is None):
                continue  # deleted in both
            if own is None or (own.epoch, own.offset) < (put.epoch, put.offset):
                lost.add(key)
    return len(lost)


@pytest.mark.parametrize("seed", sampled(range(40), 6))
def test_cleaners_change_nothing_of_what_is_lost(seed: int, tmp_path: Path) -> None:
    """Three copies that parted once and were cleaned to different offsets in their shared history."""
    chance = random.Random(seed)
    shared = random_puts(chance, 0, 0, chance.randrange(5, 30))
    copies = []
    for epoch in chance.sample((1, 2, 3), 3):
        tail = random_puts(chance, len(shared), epoch, chance.randrange(1, 8)) if chance.random() < 0.7 else []
        up_to = chance.randrange(len(shared) + 1)
        copies.append(cleaned_copy([*shared, *tail], up_to, drops_tombstones=chance.random() < 0.5))
    found = choices(tmp_path, cluster(tmp_path, *copies))
    for broker, leader in enumerate(copies, 1):
        others = [copy for copy in copies if copy is not leader]
        assert found[broker]["keys"] == lost_of(leader, others), (seed, broker)
