"""`kdump stats --format jsonl`: an object for each partition and topic. docs/stats.md has the schema."""

from __future__ import annotations

from typing import Any

from kdump.formats.codecs import NAMES, codec_name
from kdump.formats.printable import safe_path
from kdump.operations.stats import TopicStats
from kdump.statistics.partition import Stats
from kdump.statistics.records import RecordStats
from kdump.statistics.sizes import Sizes

from ..shell.rows import RowPrinter, fields_of


class JsonLines(RowPrinter):
    """Prints objects."""

    def all(self, topics: list[TopicStats]) -> None:
        """Write partitions, each topic after its own."""
        for topic in topics:
            for each in topic.partitions:
                place = {"path": safe_path(each.path)} | fields_of(each, "topic partition")
                offsets = fields_of(each.stats.batches, "first_offset last_offset")
                dirtiness = fields_of(each.dirtiness, "checkpoint clean dirty dirtyRatio=ratio")
                cleaner = {"cleaner": dirtiness if each.dirtiness else None}
                self.row("partition", place | offsets | cleaner | figures(each.stats))
            partitions = {"topic": topic.topic, "partitions": len(topic.partitions)}
            self.row("topic", partitions | figures(topic.stats))


def figures(stats: Stats) -> dict[str, Any]:
    """Return what partitions and topics have in common. Sizes are bytes, timestamps ms, offsets absolute."""
    batches, sample = stats.batches, stats.sample
    return {
        "size": stats.size,
        "segments": len(stats.segments),
        **fields_of(stats, "preallocated damagedPlaces=damage_count damagedBytes=damaged"),
        **fields_of(batches, "bytes batches"),
        "records": None if batches.wrappers else batches.records,
        "batchSizes": _sizes(batches.sizes),
        "recordsPerBatch": _sizes(batches.records_per_batch),
        "magics": {str(magic): count for magic, count in sorted(batches.magics.items())},
        "codecs": {
            codec_name(codec): fields_of(share, "batches records bytes")
            for codec, share in sorted(batches.codecs.items())
        },
        "sampledBatches": sample.batches,
        "estimatedBytes": {codec_name(codec): stats.in_codec(codec) for codec in range(len(NAMES)) if sample.batches},
        **fields_of(batches, "earliestTimestamp=earliest latestTimestamp=latest appendTimeBatches=append_time"),
        **fields_of(batches, "batchesWithoutTimestamp=no_timestamp lateBatches=late"),
        "producers": len(batches.producers),
        **fields_of(batches, "has_more_producers idempotentBatches=idempotent transactionalBatches=transactional"),
        **fields_of(batches, "controlBatches=control gaps missingOffsets=missing"),
        "bytesOverTime": [fields_of(moment, "start bytes batches") for moment in batches.series.moments()],
        "timeStep": batches.series.width,
        "contents": None if stats.records is None else _contents(stats.records),
    }


def _contents(found: RecordStats) -> dict[str, Any]:
    return {
        "records": found.records,
        "sizes": _sizes(found.sizes),
        "keySizes": _sizes(found.keys),
        "valueSizes": _sizes(found.values),
        **fields_of(found, "headers recordsWithHeaders=with_headers null_keys null_values tombstones"),
        **fields_of(found, "recordsWithoutTimestamp=no_timestamp earliestTimestamp=earliest latestTimestamp=latest"),
        **fields_of(found, "distinct_keys superseded_ratio keptRecords=kept kept_bytes kept_tombstones"),
    }


def _sizes(sizes: Sizes) -> dict[str, Any]:
    buckets = [[bucket.low, bucket.high, bucket.members] for bucket in sizes.buckets()]
    return {**fields_of(sizes, "count total min max"), "buckets": buckets}
