"""`kdump replicas --format jsonl`: one JSON object a line, as docs/replicas.md has it."""

from __future__ import annotations

from typing import Any

from kdump.formats.uuids import format_uuid
from kdump.operations.compared import Copy, PartitionReplicas
from kdump.replication.choice import Choice, Followed
from kdump.replication.compare import Comparison, OffsetRange, Relation
from kdump.replication.loss import Loss, LostRange

from ..shell.rows import RowPrinter, fields_of

Row = dict[str, Any]


class JsonLines(RowPrinter):
    """Prints partitions as JSON lines: `partition`, and its `copy`, `pair` and `choice` rows."""

    def partition(self, found: PartitionReplicas) -> None:
        """Write all rows of a partition."""
        place = {"topic": found.key.topic, "partition": found.key.partition}
        self.row("partition", place | _partition(found))
        for number, copy in enumerate(found.copies, 1):
            self.row("copy", place | _copy(number, copy))
        for pair in found.pairs:
            self.row("pair", place | _pair(pair, found))
        for choice in found.choices:
            self.row("choice", place | _choice(choice))


def _partition(found: PartitionReplicas) -> Row:
    state, source = found.state, found.source
    return {
        "topicId": format_uuid(found.key.topic_id) if found.key.topic_id else None,
        "clusterId": found.key.cluster_id,
        **fields_of(state, "replicas addingReplicas=adding removingReplicas=removing isr eligibleLeaderReplicas=elr"),
        **fields_of(state, "last_known_elr leader? leader_epoch partition_epoch is_recovering"),
        **fields_of(state, "minInsyncReplicas=min_insync is_under_replicated is_under_min_isr"),
        **fields_of(state, "isUncleanElectionAllowed=is_unclean_allowed"),
        "isCompacted": found.compacts,
        **fields_of(source, "metadataPath=path metadataEndOffset=end_offset metadataTimestamp=timestamp?"),
        **fields_of(found, "absent not_given aside"),
        "otherTopicIds": [format_uuid(each) for each in found.namesakes],
    }


def _copy(number: int, copy: Copy) -> Row:
    log = copy.log
    return {
        "copy": number,
        **fields_of(copy, "broker path isClean=clean"),
        **fields_of(copy.contents, "first_offset endOffsetOnDisk=end_offset batches"),
        "damaged": [_range(each) for each in copy.contents.damaged],
        "highWatermark": copy.high_watermark,
        **fields_of(log, "log_start log_end"),
        "leaderEpochs": [[entry.epoch, entry.start_offset] for entry in log.epochs] if log else None,
        "cutByLoading": fields_of(copy.load_loss, "bytes batches records first_offset last_offset"),
        "failure": fields_of(copy.failure, "exception message=text") if copy.failure else None,
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
        **fields_of(keys, "is_equivalent keys"),
        "differingKeys": keys.differing if keys and keys.keys is not None else None,
        "differingKeyOffsets": list(keys.offsets) if keys else [],
        "onlyFirst": [_range(each) for each in pair.only_first],
        "onlySecond": [_range(each) for each in pair.only_second],
    }


def _choice(choice: Choice) -> Row:
    return {
        "leader": choice.leader.broker,
        "copy": None if choice.leader.number is None else choice.leader.number + 1,
        **fields_of(choice, "standing"),
        **fields_of(choice.leader.log, "log_end"),
        **fields_of(choice, "blocked_at"),
        "copies": [_follower(each) for each in choice.followers],
        "lost": _loss(choice.loss),
    }


def _follower(followed: Followed) -> Row:
    replica = followed.replica
    return {
        "broker": replica.broker,
        "copy": None if replica.number is None else replica.number + 1,
        **fields_of(replica.log, "log_end"),
        **fields_of(followed, "cut_at restarts_at"),
    }


def _loss(loss: Loss) -> Row:
    return {
        **fields_of(loss, "records bytes=size committed possiblyAcknowledgedByAll=possible"),
        **fields_of(loss.keys, "keys=lost committedKeys=committed keysPossiblyAcknowledgedByAll=possible"),
        "ranges": [_lost_range(each) for each in loss.ranges],
    }


def _lost_range(lost: LostRange) -> Row:
    return {
        "copy": lost.copy + 1,
        **fields_of(lost, "is_cut firstOffset=first lastOffset=last batches records bytes=size committed"),
        **fields_of(lost, "possiblyAcknowledgedByAll=possible"),
        "keys": len(lost.keys.offsets) if lost.keys else None,
        **fields_of(lost.keys, "committedKeys=committed keysPossiblyAcknowledgedByAll=possible"),
        **fields_of(lost, "first_timestamp last_timestamp leaderEpochs=epochs producers"),
    }


def _range(each: OffsetRange) -> Row:
    return fields_of(each, "firstOffset=first lastOffset=last batches records bytes=size is_damaged")
