"""`kdump replicas --format jsonl`: one JSON object a line, as docs/replicas.md has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.formats.uuids import format_uuid
from kdump.operations.compared import Copy, PartitionReplicas
from kdump.replicas.choice import Choice, Followed
from kdump.replicas.compare import Comparison, OffsetRange, Relation
from kdump.replicas.loss import Loss, LostRange

from ..shell.rows import json_line

Row = dict[str, Any]


class JsonLines:
    """Prints partitions as JSON lines: `partition`, and its `copy`, `pair` and `choice` rows."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """`write` takes whole lines."""
        self._write = write

    def partition(self, found: PartitionReplicas) -> None:
        """Write all rows of a partition."""
        place = {"topic": found.key.topic, "partition": found.key.partition}
        self._row("partition", place | _partition(found))
        for number, copy in enumerate(found.copies, 1):
            self._row("copy", place | _copy(number, copy))
        for pair in found.pairs:
            self._row("pair", place | _pair(pair, found))
        for choice in found.choices:
            self._row("choice", place | _choice(choice))

    def finish(self, code: int) -> None:
        """Do nothing: no line comes after the last partition."""

    def _row(self, kind: str, fields: Row) -> None:
        self._write(json_line(kind, fields))


def _partition(found: PartitionReplicas) -> Row:
    state, source = found.state, found.source
    return {
        "topicId": format_uuid(found.key.topic_id) if found.key.topic_id else None,
        "clusterId": found.key.cluster_id,
        "replicas": list(state.replicas) if state else None,
        "addingReplicas": list(state.adding) if state else None,
        "removingReplicas": list(state.removing) if state else None,
        "isr": list(state.isr) if state else None,
        "eligibleLeaderReplicas": list(state.elr) if state else None,
        "lastKnownElr": list(state.last_known_elr) if state else None,
        "leader": state.leader if state and state.leader >= 0 else None,
        "leaderEpoch": state.leader_epoch if state else None,
        "partitionEpoch": state.partition_epoch if state else None,
        "isRecovering": state.is_recovering if state else None,
        "minInsyncReplicas": state.min_insync if state else None,
        "isUnderReplicated": state.is_under_replicated if state else None,
        "isUnderMinIsr": state.is_under_min_isr if state else None,
        "isUncleanElectionAllowed": state.is_unclean_allowed if state else None,
        "isCompacted": found.compacts,
        "metadataPath": source.path if source else None,
        "metadataEndOffset": source.end_offset if source else None,
        "metadataTimestamp": source.timestamp if source and source.timestamp >= 0 else None,
        "absent": list(found.absent),
        "notGiven": list(found.not_given),
        "aside": list(found.aside),
        "otherTopicIds": [format_uuid(each) for each in found.namesakes],
    }


def _copy(number: int, copy: Copy) -> Row:
    log = copy.log
    return {
        "copy": number,
        "broker": copy.broker,
        "path": copy.path,
        "isClean": copy.clean,
        "firstOffset": copy.contents.first_offset,
        "endOffsetOnDisk": copy.contents.end_offset,
        "batches": copy.contents.batches,
        "damaged": [_range(each) for each in copy.contents.damaged],
        "highWatermark": copy.high_watermark,
        "logStart": log.log_start if log else None,
        "logEnd": log.log_end if log else None,
        "leaderEpochs": [[entry.epoch, entry.start_offset] for entry in log.epochs] if log else None,
        "cutByLoading": {
            "bytes": copy.load_loss.bytes,
            "batches": copy.load_loss.batches,
            "records": copy.load_loss.records,
            "firstOffset": copy.load_loss.first_offset,
            "lastOffset": copy.load_loss.last_offset,
        },
        "failure": {"exception": copy.failure.exception, "message": copy.failure.text} if copy.failure else None,
    }


def _pair(pair: Comparison, found: PartitionReplicas) -> Row:
    first, second = found.copies[pair.first], found.copies[pair.second]
    keys = found.keys.get((pair.first, pair.second))
    return {
        "brokers": [first.broker, second.broker],
        "copies": [pair.first + 1, pair.second + 1],
        "paths": [first.path, second.path],
        "relation": pair.relation.value,
        "sameUpTo": None if pair.relation is Relation.IDENTICAL else pair.same_up_to,
        "comparedFrom": pair.compared_from,
        "isEquivalent": keys.is_equivalent if keys else None,
        "keys": keys.keys if keys else None,
        "differingKeys": keys.differing if keys and keys.keys is not None else None,
        "differingKeyOffsets": list(keys.offsets) if keys else [],
        "onlyFirst": [_range(each) for each in pair.only_first],
        "onlySecond": [_range(each) for each in pair.only_second],
    }


def _choice(choice: Choice) -> Row:
    return {
        "leader": choice.leader.broker,
        "copy": None if choice.leader.number is None else choice.leader.number + 1,
        "standing": choice.standing.value if choice.standing else None,
        "logEnd": choice.leader.log.log_end if choice.leader.log else None,
        "blockedAt": choice.blocked_at,
        "copies": [_follower(each) for each in choice.followers],
        "lost": _loss(choice.loss),
    }


def _follower(followed: Followed) -> Row:
    replica = followed.replica
    return {
        "broker": replica.broker,
        "copy": None if replica.number is None else replica.number + 1,
        "logEnd": replica.log.log_end if replica.log else None,
        "cutAt": followed.cut_at,
        "restartsAt": followed.restarts_at,
    }


def _loss(loss: Loss) -> Row:
    return {
        "records": loss.records,
        "bytes": loss.size,
        "committed": loss.committed,
        "possiblyAcknowledgedByAll": loss.possible,
        "keys": loss.keys.lost if loss.keys else None,
        "committedKeys": loss.keys.committed if loss.keys else None,
        "keysPossiblyAcknowledgedByAll": loss.keys.possible if loss.keys else None,
        "ranges": [_lost_range(each) for each in loss.ranges],
    }


def _lost_range(lost: LostRange) -> Row:
    return {
        "copy": lost.copy + 1,
        "isCut": lost.is_cut,
        "firstOffset": lost.first,
        "lastOffset": lost.last,
        "batches": lost.batches,
        "records": lost.records,
        "bytes": lost.size,
        "committed": lost.committed,
        "possiblyAcknowledgedByAll": lost.possible,
        "keys": len(lost.keys.offsets) if lost.keys else None,
        "committedKeys": lost.keys.committed if lost.keys else None,
        "keysPossiblyAcknowledgedByAll": lost.keys.possible if lost.keys else None,
        "firstTimestamp": lost.first_timestamp,
        "lastTimestamp": lost.last_timestamp,
        "leaderEpochs": list(lost.epochs),
        "producers": lost.producers,
    }


def _range(each: OffsetRange) -> Row:
    return {
        "firstOffset": each.first,
        "lastOffset": each.last,
        "batches": each.batches,
        "records": each.records,
        "bytes": each.size,
        "isDamaged": each.is_damaged,
    }
