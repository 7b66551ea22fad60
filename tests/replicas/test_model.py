"""A thousand random clusters: what is said of each choice of leader, and what healing makes of damage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kdump.errors import Problem
from kdump.formats.checkpoints import EpochEntry
from kdump.operations.compared import PartitionReplicas
from kdump.operations.replicas import Replicas
from kdump.replication.compare import Relation
from kdump.replication.heal import Healing, Peer, heal
from kdump.replication.truncation import LoadedLog, follow
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import content_of
from tests.replicas.building import NOW, Sent, partition_fields, write_copy, write_metadata
from tests.replicas.model import BROKERS, Log, Model, shared
from tests.sampling import sampled

CLUSTERS = 1000
ON_DISK = 150


def cluster(seed: int) -> Model:
    chance = random.Random(seed)
    model = Model(chance)
    model.run(chance.randint(5, 60))
    return model


def loaded(log: Log) -> LoadedLog:
    return LoadedLog(0, log.end, 0, tuple(EpochEntry(*entry) for entry in log.epochs), log.high_watermark)


def after(log: Log, cut: int | None) -> list[Sent]:
    return [batch for batch in log.batches if cut is None or batch.end <= cut]


@pytest.mark.parametrize("clusters", sampled((100, CLUSTERS), 1))
def test_followers_cut_what_the_leader_has_not_and_nothing_else(clusters: int) -> None:
    """By epochs alone. Nothing below the high watermark goes with an in-sync leader, unless it had gone before."""
    cuts = 0
    for seed in range(clusters):
        model = cluster(seed)
        for leader, log in model.logs.items():
            for broker, other in model.logs.items():
                if broker == leader or not other.epochs:
                    continue
                cut = follow(loaded(log), loaded(other)).offset
                left = after(other, cut)
                assert left == log.batches[: len(left)], (seed, leader, broker)
                assert len(left) == shared(log.batches, other.batches), (seed, leader, broker)
                cuts += cut is not None
                if model.is_lossless and leader in model.isr:
                    assert cut is None or cut >= other.high_watermark, (seed, leader, broker)
    assert cuts > clusters / 2


@pytest.mark.parametrize("seed", sampled(range(ON_DISK), 15))
def test_what_is_said_of_disks(seed: int, tmp_path: Path) -> None:
    model = cluster(seed)
    for broker in BROKERS:
        write_copy(tmp_path, broker, model.logs[broker].on_disk(clean=model.chance.random() < 0.5))
    write_metadata(tmp_path, 2, partition_fields(BROKERS, sorted(model.isr), model.leader))
    problems: list[Problem] = []
    directories = [LogDirectory(str(tmp_path / f"b{broker}")) for broker in BROKERS]
    (found,) = Replicas(directories, NOW, problems.append).partitions()
    assert not problems
    _check_pairs(found, model)
    for choice in found.choices:
        assert choice.leader.broker is not None
        log = model.logs[choice.leader.broker]
        for followed in choice.followers:
            assert followed.replica.broker is not None
            other = model.logs[followed.replica.broker]
            same = shared(log.batches, other.batches)
            if other.epochs:
                assert followed.cut_at == (other.batches[same].base if same < len(other.batches) else None)
        others = {batch for each in model.logs.values() for batch in each.batches}
        assert choice.loss.records == sum(batch.count for batch in others - set(log.batches))
        if model.is_lossless and choice.leader.broker in model.isr:
            assert choice.loss.committed == 0


def _check_pairs(found: PartitionReplicas, model: Model) -> None:
    for pair in found.pairs:
        one, other = (model.logs[BROKERS[number]].batches for number in (pair.first, pair.second))
        same = shared(one, other)
        assert pair.same_up_to == (one[same - 1].end if same else 0)
        if same == len(one) == len(other):
            assert pair.relation is Relation.IDENTICAL
        elif same == len(one):
            assert pair.relation is Relation.BEHIND
        elif same == len(other):
            assert pair.relation is Relation.AHEAD
        else:
            assert pair.relation is Relation.EPOCH


@pytest.mark.parametrize("seed", sampled(range(ON_DISK), 15))
def test_healing_gives_back_what_was_there(seed: int, tmp_path: Path) -> None:
    """Batches are damaged that another copy has: all that was there is there again, and no copy parts from another."""
    model = cluster(seed + CLUSTERS)
    healed, *others = model.chance.sample(BROKERS, 3)
    own = model.logs[healed].batches
    newest = max(others, key=lambda broker: [(batch.epoch, batch.end) for batch in model.logs[broker].batches[-1:]])
    source = model.logs[newest].batches
    same = shared(own, source)
    if same == 0 or (same < len(own) and same < len(source) and own[same].epoch > source[same].epoch):
        return  # nothing in common, or an older history, which is refused (test_heal)
    folder = write_copy(tmp_path, 1, model.logs[healed].on_disk(clean=True))
    peer = write_copy(tmp_path, 2, model.logs[newest].on_disk(clean=True))
    for batch in model.chance.sample(own[:same], min(same, 3)):
        _damage(folder, batch, model.chance)
    is_later = len(own) == same
    terms = PartitionLog(str(folder)).leader_epochs
    if is_later and any(entry.start_offset <= own[-1].end and entry.epoch > source[-1].epoch for entry in terms):
        return  # a newer leader that has appended nothing
    found = heal(PartitionLog(str(folder)), [Peer(PartitionLog(str(peer)))], terms)
    expected = source if is_later else own
    assert not found.lacking
    assert found.end == expected[-1].end
    assert _healed(folder, found) == b"".join(batch.data for batch in expected)


def _damage(folder: Path, batch: Sent, chance: random.Random) -> None:
    data = batch.data
    for path in folder.glob("*.log"):
        content = bytearray(path.read_bytes())
        at = content.find(data)
        if at >= 0:
            content[at + chance.randrange(17, len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(content)
            return


def _healed(folder: Path, found: Healing) -> bytes:
    """The log with the segments that change in their places."""
    files = {path.name: path.read_bytes() for path in folder.glob("*.log")}
    for segment in found.segments:
        files[segment.name] = b"".join(content_of(str(folder), segment.recipe))
    return b"".join(files[name] for name in sorted(files))
