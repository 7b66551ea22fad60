"""A cluster in memory: leaders that come and go, followers that fetch, disks that lose their ends.

It knows all histories, so that it can say where two logs part without any leader epoch: what Kafka works out by epochs
must come to the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.replicas.building import OnDisk, Sent

BROKERS = (1, 2, 3)


@dataclass
class Log:
    """One replica: batches, leader epochs as its file has them, high watermark, base offsets of segments."""

    batches: list[Sent] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int = 0
    roll: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def begin(self, epoch: int, start: int) -> None:
        """Note a leader epoch; entries that contradict it go."""
        if self.epochs and self.epochs[-1][0] == epoch and start >= self.epochs[-1][1]:
            return
        while self.epochs and (self.epochs[-1][0] >= epoch or self.epochs[-1][1] >= start):
            self.epochs.pop()
        self.epochs.append((epoch, start))

    def append(self, batch: Sent, rolls: bool) -> None:
        if rolls and batch.base:
            self.roll.append(batch.base)
        self.begin(batch.epoch, batch.base)
        self.batches.append(batch)

    def cut(self, number: int) -> None:
        """Keep the first batches."""
        del self.batches[number:]
        while self.epochs and self.epochs[-1][1] >= self.end:
            self.epochs.pop()
        self.roll = [base for base in self.roll if base < self.end]
        self.high_watermark = min(self.high_watermark, self.end)

    def on_disk(self, *, clean: bool) -> OnDisk:
        return OnDisk(list(self.batches), self.high_watermark, list(self.epochs), list(self.roll), clean)


def shared(one: list[Sent], other: list[Sent]) -> int:
    """How many batches two logs have in common."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Model:
    """A cluster of three brokers, driven by a random number generator."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.logs = {broker: Log() for broker in BROKERS}
        self.leader = 1
        self.epoch = 0
        self.isr = set(BROKERS)
        self.is_lossless = True  # no unclean election, no disk that lost its end
        self.marks = 0
        self.logs[1].begin(0, 0)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            (step,) = self.chance.choices(
                (self._produce, self._fetch, self._shrink, self._elect, self._unclean, self._power), (8, 10, 2, 2, 1, 1)
            )
            step()

    def _produce(self) -> None:
        log = self.logs[self.leader]
        for _ in range(self.chance.randint(1, 4)):
            self.marks += 1
            log.append(Sent(log.end, self.chance.randint(1, 4), self.epoch, str(self.marks)), self._rolls())
        self._commit()

    def _fetch(self) -> None:
        follower = self.chance.choice([broker for broker in BROKERS if broker != self.leader])
        log, source = self.logs[follower], self.logs[self.leader]
        same = shared(log.batches, source.batches)
        has_empty_term = bool(log.epochs) and log.epochs[-1][1] >= log.end and log.epochs[-1] not in source.epochs
        if same < len(log.batches) or has_empty_term:
            log.cut(same)
        for batch in source.batches[same : same + self.chance.choice((0, 1, 3, 99))]:
            log.append(batch, self._rolls())
        if log.batches == source.batches:
            self.isr.add(follower)
        self._commit()
        log.high_watermark = min(log.end, source.high_watermark)

    def _shrink(self) -> None:
        others = sorted(self.isr - {self.leader})
        if others:
            self.isr.discard(self.chance.choice(others))
            self._commit()

    def _elect(self) -> None:
        others = sorted(self.isr - {self.leader})
        if others:
            self._lead(self.chance.choice(others), self.isr - {self.leader})

    def _unclean(self) -> None:
        broker = self.chance.choice([each for each in BROKERS if each != self.leader])
        self.is_lossless = self.is_lossless and broker in self.isr
        self._lead(broker, {broker})

    def _power(self) -> None:
        """The disk of a broker loses its end; who led does not lead any more."""
        broker = self.chance.choice(BROKERS)
        log = self.logs[broker]
        lost = self.chance.randint(0, min(3, len(log.batches)))
        if lost:
            log.cut(len(log.batches) - lost)
            self.is_lossless = False
        if broker == self.leader:
            self._unclean()

    def _lead(self, broker: int, isr: set[int]) -> None:
        self.leader, self.isr = broker, isr
        self.epoch += 1
        self.logs[broker].begin(self.epoch, self.logs[broker].end)
        self._commit()

    def _commit(self) -> None:
        log = self.logs[self.leader]
        reached = min(shared(log.batches, self.logs[broker].batches) for broker in self.isr)
        if reached:
            log.high_watermark = max(log.high_watermark, log.batches[reached - 1].end)

    def _rolls(self) -> bool:
        return self.chance.random() < 0.15
