"""Which producer id, producer epoch and base sequence may stand together in a v2 batch: the one place that knows."""

from __future__ import annotations

from kdump.formats.names import INTERNAL_TOPICS

NO_PRODUCER = -1


def producer_fault(producer_id: int, producer_epoch: int, base_sequence: int, *, is_control: bool) -> str:
    """Return what is wrong with the three fields of a batch, or "" if Kafka or a client writes them so.

    Without a producer id the other two mean nothing: brokers and consumers look at them only if the id is 0 or more
    (DefaultRecordBatch.hasProducerId, UnifiedLog.analyzeAndValidateProducerState), and real writers fill them
    differently. The Java producer writes -1, -1. The group, share and transaction coordinators write epoch -1 and base
    sequence 0 (CoordinatorRuntime; GroupMetadataManager since 0.11 so, too). kafkajs writes epoch 0 and sequence 0.
    With an id, the epoch and the sequence have to be there (MemoryRecordsBuilder); a transaction marker has no
    sequence. Transactional offset commits have an id, and all of them base sequence 0: legal here, see
    `has_running_sequences` for what may not be asked of them.
    """
    if min(producer_id, producer_epoch, base_sequence) < NO_PRODUCER:
        return "one of them is below -1"
    if producer_id == NO_PRODUCER:
        return ""
    if producer_epoch < 0:
        return "there is no producer epoch"
    if base_sequence < 0 and not is_control:
        return "there is no sequence"
    return ""


def has_running_sequences(topic: str) -> bool:
    """Return whether the sequences of a producer's batches follow each other in this topic.

    Not in topics that coordinators write: each of their batches begins with sequence 0, transactional offset commits
    included, and a broker checks the sequences of clients' batches alone (AppendOrigin.COORDINATOR).
    """
    return topic not in INTERNAL_TOPICS
