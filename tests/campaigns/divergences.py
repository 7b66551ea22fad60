"""Random clusters whose copies part, are damaged, healed, and follow a leader: nothing committed may be lost.

    ./dev campaign divergences --clusters 1000 --seed 0

Leaders, followers, epochs, unclean elections and power cuts are those of tests/replicas/model.py, which knows what
every copy had. Each cluster is written to disk; one copy is damaged and given back what it lacks by `kdump repair
--from`; then each in-sync replica leads, and what the others cut must leave them equal to it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kdump.operations.compared import PartitionReplicas
from kdump.operations.replicas import Replicas
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch
from tests.agreement.running import kdump
from tests.replicas.building import NOW, Sent, partition_fields, write_copy, write_metadata
from tests.replicas.model import BROKERS, Model, shared

NAME = "orders-0"
COMMANDS = ("healed", "refused", "nowhere valid", "nothing to do")
_BY_CODE = {0: "healed", 4: "refused", 3: "nowhere valid"}


@dataclass
class Tally:
    """What came of a campaign; `wrong` is what must not be, with the seed of its cluster."""

    clusters: int = 0
    copies_part: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    followed: int = 0
    cut: int = 0
    wrong: list[str] = field(default_factory=list)


def campaign(seeds: range, folder: Path, tally: Tally) -> None:
    """Make, damage, heal and lead one cluster for each seed."""
    for seed in seeds:
        home = folder / str(seed)
        tally.wrong += (f"seed {seed}: {text}" for text in _one(seed, home, tally))
        tally.clusters += 1
        shutil.rmtree(home, ignore_errors=True)


def _one(seed: int, home: Path, tally: Tally) -> Iterator[str]:
    chance = random.Random(seed)
    model = Model(chance)
    model.run(chance.randint(5, 60))
    folders = {
        broker: write_copy(home, broker, model.logs[broker].on_disk(clean=chance.random() < 0.5)) for broker in BROKERS
    }
    write_metadata(home, 2, partition_fields(BROKERS, sorted(model.isr), model.leader))
    truth = {broker: list(model.logs[broker].batches) for broker in BROKERS}
    tally.copies_part += len({tuple(batches) for batches in truth.values()}) > 1
    victim = chance.choice(BROKERS)
    gone = _damage(folders[victim], truth[victim], chance)
    healed = tally.outcomes["healed"]
    yield from _heal(home, victim, gone, truth, model, chance, tally)
    if not gone or tally.outcomes["healed"] > healed:
        yield from _led(home, model, tally)


# --- damage ----------------------------------------------------------------------------------------------------------


def _damage(folder: Path, batches: list[Sent], chance: random.Random) -> list[Sent]:
    """Damage a copy in one of several ways; the batches that are not valid there any more."""
    ways: tuple[Callable[[Path, list[Sent], random.Random], list[Sent]], ...] = (_flip, _lose_segment, _cut, _wipe)
    return chance.choice(ways)(folder, batches, chance)


def _flip(folder: Path, batches: list[Sent], chance: random.Random) -> list[Sent]:
    gone = chance.sample(batches, min(len(batches), chance.randint(1, 3)))
    for batch in gone:
        for path in folder.glob("*.log"):
            content = bytearray(path.read_bytes())
            at = content.find(batch.data)
            if at >= 0:
                content[at + chance.randrange(17, len(batch.data))] ^= 1 << chance.randrange(8)
                path.write_bytes(content)
    return gone


def _lose_segment(folder: Path, batches: list[Sent], chance: random.Random) -> list[Sent]:
    """Any segment. That the first one was not deleted by retention shows in the leader epochs."""
    segments = PartitionLog(str(folder)).segments
    if len(segments) < 2:
        return []
    number = chance.randrange(len(segments))
    start = segments[number].base_offset
    stop = segments[number + 1].base_offset if number + 1 < len(segments) else 1 << 62
    for path in folder.glob(f"{start:020d}.*"):
        path.unlink()
    return [batch for batch in batches if start <= batch.base < stop]


def _cut(folder: Path, batches: list[Sent], chance: random.Random) -> list[Sent]:
    path = Path(PartitionLog(str(folder)).segments[-1].log_path)
    size = path.stat().st_size
    keep = chance.randint(0, size)
    base, at = int(path.name.split(".")[0]), 0
    gone = []
    for batch in (each for each in batches if each.base >= base):
        at += len(batch.data)
        if at > keep:
            gone.append(batch)
    path.write_bytes(path.read_bytes()[:keep])
    return gone


def _wipe(folder: Path, batches: list[Sent], chance: random.Random) -> list[Sent]:
    shutil.rmtree(folder)
    return batches


# --- healing ---------------------------------------------------------------------------------------------------------


def _heal(
    home: Path,
    victim: int,
    gone: list[Sent],
    truth: dict[int, list[Sent]],
    model: Model,
    chance: random.Random,
    tally: Tally,
) -> Iterator[str]:
    """Heal a copy from one or both others, and check what is there then."""
    others = chance.sample([each for each in BROKERS if each != victim], chance.randint(1, 2))
    before = _content(home / f"b{victim}" / NAME)
    sources = [part for broker in others for part in ("--from", f"b{broker}")]
    done = kdump(home, "repair", f"b{victim}/{NAME}", *sources, "--apply")
    outcome = "nothing to do" if done.out.startswith("Nothing to do") else _BY_CODE.get(done.code, f"exit {done.code}")
    tally.outcomes[outcome] += 1
    after = _content(home / f"b{victim}" / NAME)
    own = truth[victim]
    if outcome == "healed":
        if not any(_bytes(truth[broker]).startswith(after) for broker in (victim, *others)):
            yield f"after healing from {others} the log is none that any broker had"
        missing = [batch for batch in own if batch not in gone and batch.data not in after]
        newest = truth[max(others, key=lambda broker: _newest(model, broker))]
        missing += [batch for batch in own[: shared(own, newest)] if batch.data not in after]
        if missing:
            yield f"after healing from {others} there is no batch {missing[0]}"
        damaged = [row for row in kdump(home, "verify", f"b{victim}", "--format", "jsonl").of_type("finding")
                   if row["code"].startswith("KD-LOG-") and row["severity"] == "error"]  # fmt: skip
        if damaged:
            yield f"after healing from {others}: {damaged[0]['message']}"
        again = kdump(home, "repair", f"b{victim}/{NAME}", *sources)
        if again.code != 0:
            yield f"a second healing finds something to do: {again.out}{again.err}"
        return
    if after != before:
        yield f"{outcome}, and the log has changed"
    if outcome == "nowhere valid" and all(any(batch in truth[broker] for broker in others) for batch in gone):
        yield f"all that is gone is valid in {others}, and it was not taken: {done.err}"
    if outcome == "refused" and not _has_reason(own, [truth[broker] for broker in others], model, victim):
        yield f"refused to heal from {others}: {done.err}"
    if (
        outcome == "nothing to do"
        and gone
        and not _wiped(gone, own)
        and any(batch in truth[broker] for batch in gone for broker in others)
        and _is_inside(gone, own)
    ):
        yield f"nothing is done although {others} have what is gone"
    if outcome not in COMMANDS:
        yield f"{outcome}: {done.err}"


def _newest(model: Model, broker: int) -> tuple[int, int, int]:
    """The latest leader that a copy knows of, who may have appended nothing; then its last batch."""
    log = model.logs[broker]
    last = log.batches[-1] if log.batches else None
    return max((epoch for epoch, _ in log.epochs), default=-1), last.epoch if last else -1, log.end


def _is_inside(gone: list[Sent], own: list[Sent]) -> bool:
    """Whether something valid follows what is gone."""
    left = [batch for batch in own if batch not in gone]
    return bool(left) and any(batch.base < left[-1].base for batch in gone)


def _wiped(gone: list[Sent], own: list[Sent]) -> bool:
    return len(gone) == len(own)


def _has_reason(own: list[Sent], others: list[list[Sent]], model: Model, victim: int) -> bool:
    """Whether one of the others has an older history than this copy, or ends where a newer leader had begun here."""
    terms = model.logs[victim].epochs
    for other in others:
        same = shared(own, other)
        if same < len(own) and same < len(other):
            return True  # an older history, or one that parts inside what is damaged
        newest = other[-1].epoch if other else -1
        if any(epoch > newest for epoch, _ in terms):
            return True
    return False


def _content(folder: Path) -> bytes:
    if not folder.exists():
        return b""
    return b"".join(Path(segment.log_path).read_bytes() for segment in PartitionLog(str(folder)).segments)


def _bytes(batches: list[Sent]) -> bytes:
    return b"".join(batch.data for batch in batches)


# --- a leader --------------------------------------------------------------------------------------------------------


def _led(home: Path, model: Model, tally: Tally) -> Iterator[str]:
    """Let each in-sync replica lead, and look at what the others cut."""
    problems: list[object] = []
    directories = [LogDirectory(str(home / f"b{broker}")) for broker in BROKERS]
    for found in Replicas(directories, NOW, problems.append).partitions():
        for choice in found.choices:
            broker = choice.leader.broker
            if broker not in model.isr or choice.leader.number is None or choice.blocked_at is not None:
                continue
            yield from _followed(found, choice.leader.number, tally)
            was_whole = choice.leader.log is not None and choice.leader.log.log_end >= model.logs[broker].end
            if model.is_lossless and was_whole and choice.loss.committed:
                yield f"leader {broker} was in sync and loses {choice.loss.committed} committed records"


def _followed(found: PartitionReplicas, leader: int, tally: Tally) -> Iterator[str]:
    """What is left of each follower has to be the beginning of the leader's log."""
    choice = next(each for each in found.choices if each.leader.number == leader)
    log = _batches(found, leader)
    for each in choice.followers:
        number = each.replica.number
        if number is None or found.copies[number].contents.damaged or each.replica.log is None:
            continue
        tally.followed += 1
        tally.cut += each.cut_at is not None
        end = each.replica.log.log_end if each.cut_at is None else each.cut_at
        left = [batch for batch in _batches(found, number) if batch[0] < end]
        if each.restarts_at is None and left != log[: len(left)]:
            yield f"copy {number + 1} is not the beginning of its leader's, copy {leader + 1}"


def _batches(found: PartitionReplicas, number: int) -> list[tuple[int, int]]:
    """The first offset and the CRC of each batch of a copy."""
    log = PartitionLog(found.copies[number].path)
    return [(batch.base_offset, batch.crc) for batch in log.batches() if isinstance(batch, Batch)]


def main() -> int:
    """Run a campaign and print what came of it; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--clusters", type=int, default=1000, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (default: %(default)s)")
    options = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        campaign(range(options.seed, options.seed + options.clusters), Path(folder), tally)
    print(f"{tally.clusters} clusters, the copies of {tally.copies_part} part; seeds from {options.seed}")
    print("healing: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(tally.outcomes.items())))
    print(f"{tally.followed} followers of in-sync leaders, {tally.cut} of them cut their logs")
    print(f"{len(tally.wrong)} wrong")
    for text in tally.wrong[:20]:
        print(f"  {text}")
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
