"""The transactional ids and their states, out of __transaction_state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kdump.errors import Report
from kdump.formats import names
from kdump.formats.schemas.transaction_state import TransactionState, decode_key, decode_value, state_of
from kdump.query.contents import replay
from kdump.settings.defaults import MAX_TIMEOUT_MS
from kdump.storage.replica import Replica, farthest, read_replicas
from kdump.txns.partition import LATE_BUFFER_MS

ENDING = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE)
"""The states in which the coordinator has still to write markers."""


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """The last state of a transactional id; timestamps and the timeout in ms, -1 where absent.

    `partition` is the one of __transaction_state that holds it, `partitions` are those of the transaction, by topic.
    """

    transactional_id: str
    partition: int
    state: TransactionState | str
    producer_id: int
    producer_epoch: int
    previous_producer_id: int
    next_producer_id: int
    timeout_ms: int
    start_timestamp: int
    last_update_timestamp: int
    partitions: dict[str, tuple[int, ...]]

    def covers(self, topic: str, partition: int, producer_epoch: int) -> bool:
        """Return whether an end of the id's transaction brings a marker to the partition for a producer of this epoch.

        It does not where the coordinator does not count the partition to the transaction, or has gone on to another
        one with a newer producer epoch.
        """
        if self.state not in (TransactionState.ONGOING, *ENDING) or partition not in self.partitions.get(topic, ()):
            return False
        return self.state != TransactionState.ONGOING or producer_epoch >= self.producer_epoch

    def is_stuck(self, now: int, max_timeout_ms: int = MAX_TIMEOUT_MS) -> bool:
        """Return whether its markers should have been written long before the time `now` (ms)."""
        return self.state in ENDING and now - self.last_update_timestamp > max_timeout_ms + LATE_BUFFER_MS


class TransactionalIds:
    """All transactional ids at hand, with the producers that work for them."""

    def __init__(self) -> None:
        self.by_id: dict[str, TransactionalId] = {}
        self._by_producer: dict[int, TransactionalId] = {}

    def add(self, found: TransactionalId) -> None:
        """Put in what was found last of an id."""
        self.by_id[found.transactional_id] = found
        self._by_producer[found.producer_id] = found

    def of_producer(self, producer_id: int) -> TransactionalId | None:
        """Return the id that a producer works for; None where it is not at hand."""
        return self._by_producer.get(producer_id)

    @classmethod
    def of(cls, states: Iterable[Replica], report: Report) -> TransactionalIds:
        """Return those in the replicas of __transaction_state, one of each partition."""
        found = cls()
        for transactional_id in read_replicas(states, report, lambda replica: transactional_ids(replica, report)):
            found.add(transactional_id)
        return found

    @classmethod
    def among(cls, replicas: Iterable[Replica], report: Report) -> TransactionalIds:
        """Return those of __transaction_state in the replicas; of several of a partition, the one that goes on."""
        states = [replica for replica in replicas if replica.topic == names.TRANSACTION_STATE_TOPIC]
        return cls.of(farthest(states, report), report)


def transactional_ids(replica: Replica, report: Report) -> Iterator[TransactionalId]:
    """Yield the live transactional ids of a partition of __transaction_state; what cannot be decoded is skipped."""
    found: dict[str, TransactionalId] = {}

    def take(key: bytes, value: bytes | None) -> None:
        transactional_id: str = decode_key(key).fields["transactionalId"]
        if value is None:
            found.pop(transactional_id, None)
        else:
            found[transactional_id] = _state(transactional_id, replica.partition, value)

    replay(replica, take, report)
    yield from (found[name] for name in sorted(found))


def _state(transactional_id: str, partition: int, value: bytes) -> TransactionalId:
    fields = decode_value(0, value).fields
    return TransactionalId(
        transactional_id,
        partition,
        state_of(fields["transactionStatus"]),
        fields["producerId"],
        fields["producerEpoch"],
        fields["previousProducerId"],
        fields["nextProducerId"],
        fields["transactionTimeoutMs"],
        fields["transactionStartTimestampMs"],
        fields["transactionLastUpdateTimestampMs"],
        {topic["topic"]: tuple(sorted(topic["partitionIds"])) for topic in fields["transactionPartitions"] or ()},
    )
