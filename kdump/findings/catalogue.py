"""The catalogue of everything that `kdump verify` can find: stable codes, and what each means.

A code never changes its meaning once released; what a script matches is the code, never the message.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from kdump.findings import remedies as ways
from kdump.findings.finding import BrokerEffect, FindingKind, Remedy, Severity, in_one_line
from kdump.formats import names
from kdump.formats.names import is_partition_dir

ERROR, WARNING, INFO = Severity
SEVERITIES = tuple(Severity)

(
    SERVES_WRONG_DATA,
    TRUNCATES,
    REBUILDS,
    IGNORES,
    REFUSES,
    GOES_OFFLINE,
    SETS_ASIDE,
    BLOCKS_RETENTION,
    BLOCKS_COMPACTION,
    STALLS,
) = BrokerEffect


class Finding(NamedTuple):
    """Something that is wrong, odd or worth knowing, and where.

    `position` is a byte position in the file at `path`, `offset` an absolute offset; None where there is none. `effect`
    is what a broker does about it where that is not what it does about most findings of the code, `ways` are the ways
    out where they are not those of the code.
    """

    code: str
    severity: str
    path: str
    position: int | None
    offset: int | None
    message: str
    effect: BrokerEffect | None = None
    ways: tuple[Remedy, ...] | None = None

    @property
    def kind(self) -> FindingKind:
        """What the code stands for."""
        return CATALOGUE[self.code]

    @property
    def meaning(self) -> str:
        """What findings of this code mean, in one sentence."""
        return self.kind.meaning

    @property
    def broker(self) -> str:
        """What a broker does: one of BrokerEffect."""
        return (self.effect or self.kind.effect).value

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """The ways out, the first to try first."""
        return self.kind.remedies if self.ways is None else self.ways

    @property
    def group(self) -> str:
        """The partition directory that it is about, also in a checkpoint file; else the log directory."""
        if is_partition_dir(os.path.basename(self.path)):
            return self.path
        folder, name = os.path.split(self.path)
        if name in names.OFFSET_CHECKPOINTS:  # its lines are about partitions, which the message names first
            partition = self.message.partition(": ")[0]
            if is_partition_dir(partition):
                return os.path.join(folder, partition)
        return folder or "."

    @property
    def repair(self) -> str:
        """The ways out in one line."""
        return in_one_line(self.remedies)


def found(
    code: str,
    path: str,
    message: str,
    position: int | None = None,
    offset: int | None = None,
    *,
    severity: str = "",
    effect: BrokerEffect | None = None,
) -> Finding:
    """A finding with its code's own severity and effect, unless another one fits what was met."""
    return Finding(code, severity or CATALOGUE[code].severity, path, position, offset, message, effect)


# fmt: off
_KINDS = (
    # the log: frames, checksums, offsets
    FindingKind("KD-LOG-CRC", ERROR, TRUNCATES, ways.DAMAGED_BATCH, "log",
        "The bytes of a batch are not those that its CRC was computed from."),
    FindingKind("KD-LOG-SIZE", ERROR, TRUNCATES, ways.DAMAGED_BATCH, "log",
        "The size field of a batch has a value that no batch can have."),
    FindingKind("KD-LOG-TORN", ERROR, TRUNCATES, ways.INCOMPLETE_BATCH, "log", "The log ends inside a batch."),
    FindingKind("KD-LOG-GARBAGE", ERROR, TRUNCATES, ways.INCOMPLETE_BATCH, "log",
        "The log ends with bytes that are not the beginning of a batch."),
    FindingKind("KD-LOG-ZEROS", ERROR, TRUNCATES, ways.INCOMPLETE_BATCH, "log",
        "Zeros stand where batches should, up to the end of the log."),
    FindingKind("KD-LOG-PREALLOCATED", WARNING, REBUILDS, ways.TRIMMED, "log",
        "The active segment ends with zeros, as preallocation leaves it after a crash."),
    FindingKind("KD-LOG-BEYOND", WARNING, TRUNCATES, ways.DAMAGED_BATCH, "log",
        "Valid batches follow damage: a broker's recovery would drop them."),
    FindingKind("KD-LOG-MAGIC", ERROR, BLOCKS_COMPACTION, ways.WRONG_BATCH, "log",
        "A batch has a magic that no release knows: consumers and the cleaner fail there."),
    FindingKind("KD-LOG-ORDER", ERROR, SERVES_WRONG_DATA, ways.WRONG_BATCH, "order",
        "Offsets do not increase from one batch to the next."),
    FindingKind("KD-LOG-BASE", ERROR, SERVES_WRONG_DATA, ways.WRONG_BATCH, "order",
        "A batch has an offset below its segment's base offset, which is in the file name."),
    FindingKind("KD-LOG-OVERLAP", ERROR, SERVES_WRONG_DATA, ways.WRONG_BATCH, "order",
        "A batch has an offset that belongs to the next segment, which hides it."),
    FindingKind("KD-LOG-OFFSET", ERROR, REFUSES, ways.WRONG_BATCH, "order",
        "A batch has an offset too far above its segment's base offset for indexes, later ones have not."),
    FindingKind("KD-LOG-OVERFLOW", ERROR, REBUILDS, ways.SPLIT, "order",
        "The offsets of a segment end too far from its base offset for the indexes' 31 bits."),
    FindingKind("KD-LOG-EMPTY", INFO, IGNORES, (), "log",
        "A segment that is not the last one is empty, as cleaning leaves it."),
    FindingKind("KD-LOG-LARGE", ERROR, REFUSES, ways.COPIED, "log",
        "A .log is larger than the 2147483647 bytes that a segment may have."),
    FindingKind("KD-LOG-REWRITTEN", WARNING, SERVES_WRONG_DATA, ways.COMPARED, "notes",
        "A closed segment's valid batches are not those that an earlier run verified: something wrote into the file."),
    FindingKind("KD-LOG-NAME", ERROR, REFUSES, ways.SET_FILE_ASIDE, "directory",
        "A file's name ends as a segment's does, but does not begin with an offset."),
    # batches: headers and, with --deep, records
    FindingKind("KD-BATCH-DELTA", ERROR, SERVES_WRONG_DATA, ways.WRONG_BATCH, "log",
        "A batch's last offset delta cannot be: below 0, or too small for its records."),
    FindingKind("KD-BATCH-COUNT", ERROR, SERVES_WRONG_DATA, ways.WRONG_BATCH, "log",
        "A batch's record count cannot be: below 0, or none although there are bytes of records."),
    FindingKind("KD-BATCH-ATTRIBUTES", ERROR, SERVES_WRONG_DATA, ways.COPIED, "log",
        "A batch's attributes contradict its other fields."),
    FindingKind("KD-BATCH-BITS", WARNING, IGNORES, (), "log",
        "A batch, or a record in it (--deep), has attribute bits set that no release gives a meaning."),
    FindingKind("KD-BATCH-CODEC", ERROR, BLOCKS_COMPACTION, ways.WRONG_BATCH, "records",
        "A payload cannot be decompressed (unknown codec, or broken): consumers and the cleaner fail there."),
    FindingKind("KD-BATCH-PRODUCER", ERROR, SERVES_WRONG_DATA, ways.COPIED, "log",
        "A batch's producer id, producer epoch and sequence do not go together."),
    FindingKind("KD-BATCH-RECORDS", ERROR, BLOCKS_COMPACTION, ways.WRONG_BATCH, "records",
        "The records of a batch cannot be decoded although its CRC matches: consumers and the cleaner fail there."),
    FindingKind("KD-BATCH-OFFSETS", ERROR, SERVES_WRONG_DATA, ways.WRONG_BATCH, "records",
        "Records have offsets out of order, or outside what their batch's header says."),
    FindingKind("KD-BATCH-MAX-TIMESTAMP", ERROR, SERVES_WRONG_DATA, ways.COPIED, "records",
        "A batch's max timestamp is below that of a record in it: lookups by time miss the record."),
    FindingKind("KD-BATCH-MAX-TIMESTAMP-HIGH", WARNING, SERVES_WRONG_DATA, ways.COPIED, "records",
        "A batch's max timestamp is above that of every record in it."),
    FindingKind("KD-BATCH-MESSAGE-CRC", ERROR, SERVES_WRONG_DATA, ways.WRONG_BATCH, "records",
        "A message inside a compressed v0/v1 batch breaks its own CRC, which readers do not check."),
    FindingKind("KD-BATCH-MESSAGE-LENGTH", WARNING, SERVES_WRONG_DATA, ways.WRONG_BATCH, "records",
        "Key and value lengths of a v0/v1 message are not as any writer writes them."),
    FindingKind("KD-BATCH-CONTROL", ERROR, REFUSES, ways.WRONG_BATCH, "log",
        "A control batch has no control record that fits it."),
    FindingKind("KD-BATCH-CONTROL-VERSION", WARNING, IGNORES, (), "log",
        "A control record has a version that no release writes; readers treat it as version 0."),
    FindingKind("KD-VALUE-UNDECODABLE", WARNING, IGNORES, ways.COMPARED, "records",
        "A record of an internal topic is not of a form that Kafka's releases write."),
    # leader epochs
    FindingKind("KD-EPOCH-ORDER", ERROR, SERVES_WRONG_DATA, ways.WRONG_BATCH, "epochs",
        "Leader epochs decrease along the log; the CRC does not cover them."),
    FindingKind("KD-EPOCH-CHECKPOINT", ERROR, SERVES_WRONG_DATA, ways.REPAIRED, "epochs",
        "leader-epoch-checkpoint and the batches of the log do not agree."),
    FindingKind("KD-EPOCH-LOG-START", INFO, IGNORES, (), "epochs",
        "leader-epoch-checkpoint begins above the first batch: the log start offset was there once, and is forgotten."),
    FindingKind("KD-EPOCH-BEYOND", WARNING, REBUILDS, (), "epochs",
        "leader-epoch-checkpoint has an entry beyond the end of the log."),
    FindingKind("KD-EPOCH-FORMAT", ERROR, GOES_OFFLINE, ways.REPAIRED, "epochs",
        "leader-epoch-checkpoint cannot be parsed, or its entries are out of order."),
    # producers and transactions
    FindingKind("KD-PRODUCER-SEQUENCE", WARNING, IGNORES, ways.COMPARED, "producers",
        "A producer's sequence numbers jump within one producer epoch."),
    FindingKind("KD-PRODUCER-EPOCH", WARNING, IGNORES, ways.COMPARED, "producers", "A producer's epoch goes back."),
    FindingKind("KD-TXN-MIXED", ERROR, REFUSES, ways.WRONG_BATCH, "producers",
        "Data that is not transactional is inside its producer's open transaction."),
    FindingKind("KD-TXN-HANGING", WARNING, STALLS, ways.HANGING, "producers",
        "A transaction is open for longer than any coordinator allows."),
    FindingKind("KD-TXN-OPEN", INFO, IGNORES, (), "producers", "A transaction is open at the end of the log."),
    FindingKind("KD-TXN-MISSING", ERROR, SERVES_WRONG_DATA, ways.INDEX, "txn",
        "An aborted transaction is not in the .txnindex: its records are served as committed."),
    FindingKind("KD-TXN-ORPHAN", ERROR, SERVES_WRONG_DATA, ways.INDEX, "txn",
        "A .txnindex entry names a marker that is not in its segment: committed records may be hidden."),
    FindingKind("KD-TXN-ENTRY", ERROR, SERVES_WRONG_DATA, ways.INDEX, "txn",
        "A .txnindex entry breaks its format or its order, or begins after its transaction."),
    FindingKind("KD-TXN-BASE", ERROR, REBUILDS, ways.INDEX, "txn",
        "A .txnindex entry ends below its segment's base offset."),
    FindingKind("KD-TXN-VERSION", ERROR, REFUSES, ways.INDEX, "txn", "A .txnindex entry has an unknown version."),
    FindingKind("KD-TXN-LENGTH", ERROR, IGNORES, ways.INDEX, "txn", "A .txnindex ends inside an entry."),
    # timestamps
    FindingKind("KD-TIME-FUTURE", WARNING, BLOCKS_RETENTION, ways.TIMESTAMPS, "timestamps",
        "Timestamps are in the future: this segment and all newer ones are kept until then."),
    FindingKind("KD-TIME-UNIT", WARNING, BLOCKS_RETENTION, ways.TIMESTAMPS, "timestamps",
        "Timestamps are in seconds, microseconds or nanoseconds where Kafka wants milliseconds."),
    FindingKind("KD-TIME-NEGATIVE", WARNING, IGNORES, ways.TIMESTAMPS, "timestamps",
        "Timestamps are negative although only -1 (none) may be."),
    FindingKind("KD-TIME-ABSENT", INFO, BLOCKS_RETENTION, (), "timestamps",
        "Batches have no timestamp: retention goes by the file's time where all of a segment has none."),
    FindingKind("KD-TIME-ORDER", INFO, IGNORES, (), "timestamps", "Timestamps do not increase along the log."),
    FindingKind("KD-TIME-TYPE", WARNING, SERVES_WRONG_DATA, ways.COPIED, "timestamps",
        "One batch's timestamp type differs from that of its neighbours, although it is the topic's."),
    FindingKind("KD-TIME-HELD", INFO, IGNORES, (), "timestamps",
        "What keeps a segment from being deleted by time, and until when."),
    # offset index
    FindingKind("KD-IDX-LENGTH", ERROR, IGNORES, ways.INDEX, "offset_index",
        "The length of an .index is not a multiple of 8."),
    FindingKind("KD-IDX-ORDER", ERROR, SERVES_WRONG_DATA, ways.INDEX, "offset_index",
        "Offsets or positions of an .index do not increase."),
    FindingKind("KD-IDX-POSITION", ERROR, SERVES_WRONG_DATA, ways.INDEX, "offset_index",
        "An .index entry does not lead to the start of a batch."),
    FindingKind("KD-IDX-OFFSET", ERROR, SERVES_WRONG_DATA, ways.INDEX, "offset_index",
        "An .index entry names an offset that is not the last one of a batch that it stands for."),
    FindingKind("KD-IDX-ZEROS", ERROR, SERVES_WRONG_DATA, ways.INDEX, "offset_index",
        "An .index ends with zeros that a search treats as entries."),
    FindingKind("KD-IDX-PREALLOCATED", INFO, REBUILDS, ways.TRIMMED, "offset_index",
        "The active segment's .index ends with zeros, as preallocation leaves it after a crash."),
    FindingKind("KD-IDX-LEFTOVER", INFO, REBUILDS, (), "offset_index",
        "The active segment's .index ends with entries of a log that was truncated before the broker was killed."),
    FindingKind("KD-IDX-EMPTY", WARNING, IGNORES, ways.INDEX, "offset_index",
        "A segment's .index is empty although its .timeindex has entries, which are written together."),
    FindingKind("KD-IDX-MISSING", WARNING, REBUILDS, ways.INDEX, "offset_index", "A segment has no .index."),
    FindingKind("KD-IDX-ORPHAN", WARNING, IGNORES, ways.LEFT_ALONE, "directory",
        "An index file has no .log; a broker deletes it at start."),
    FindingKind("KD-IDX-SPARSE", INFO, IGNORES, ways.SPARSE_INDEX, "offset_index",
        "An .index has stretches without entries: lookups there read much of the log."),
    # time index
    FindingKind("KD-TIDX-LENGTH", ERROR, IGNORES, ways.INDEX, "time_index",
        "The length of a .timeindex is not a multiple of 12."),
    FindingKind("KD-TIDX-ORDER", ERROR, SERVES_WRONG_DATA, ways.INDEX, "time_index",
        "Timestamps or offsets of a .timeindex do not increase."),
    FindingKind("KD-TIDX-OFFSET", ERROR, SERVES_WRONG_DATA, ways.INDEX, "time_index",
        "A .timeindex entry names an offset that is not in the segment."),
    FindingKind("KD-TIDX-TIMESTAMP", ERROR, SERVES_WRONG_DATA, ways.INDEX, "time_index",
        "A .timeindex entry's timestamp is not the largest one up to its offset."),
    FindingKind("KD-TIDX-LAST", ERROR, SERVES_WRONG_DATA, ways.INDEX, "time_index",
        "The last .timeindex entry is not the segment's largest timestamp, by which retention goes."),
    FindingKind("KD-TIDX-ZEROS", ERROR, SERVES_WRONG_DATA, ways.INDEX, "time_index",
        "A .timeindex ends with zeros that a search treats as entries, and by which retention deletes the segment."),
    FindingKind("KD-TIDX-PREALLOCATED", INFO, REBUILDS, ways.TRIMMED, "time_index",
        "The active segment's .timeindex ends with zeros, as preallocation leaves it after a crash."),
    FindingKind("KD-TIDX-LEFTOVER", INFO, REBUILDS, (), "time_index",
        "The active segment's .timeindex ends with entries of a log that was truncated before the broker was killed."),
    FindingKind("KD-TIDX-MISSING", WARNING, IGNORES, ways.INDEX, "time_index",
        "A segment has no .timeindex: retention and lookups by time go by the file's time."),
    # producer snapshots
    FindingKind("KD-SNAP-CORRUPT", ERROR, REBUILDS, ways.REPAIRED, "snapshots",
        "A producer snapshot breaks its format or its CRC."),
    FindingKind("KD-SNAP-STATE", WARNING, SERVES_WRONG_DATA, ways.REPAIRED, "snapshots",
        "A producer snapshot and the log before it do not agree on a producer."),
    FindingKind("KD-SNAP-STRAY", INFO, IGNORES, ways.LEFT_ALONE, "partition",
        "A producer snapshot belongs to no segment; a broker deletes it at start."),
    # checkpoints
    FindingKind("KD-CKPT-FORMAT", ERROR, IGNORES, ways.CHECKPOINT_FILE, "checkpoints",
        "A checkpoint file cannot be parsed; a broker treats all its offsets as 0."),
    FindingKind("KD-CKPT-RECOVERY", ERROR, SERVES_WRONG_DATA, ways.MISSING_RECORDS, "checkpoints",
        "The recovery point is above the log end offset: flushed records are missing."),
    FindingKind("KD-CKPT-BEHIND", WARNING, IGNORES, ways.COMPARED, "checkpoints",
        "The recovery point is not the log end offset after a clean shutdown: something came after it."),
    FindingKind("KD-CKPT-HIGH-WATERMARK", ERROR, SERVES_WRONG_DATA, ways.MISSING_RECORDS, "checkpoints",
        "The high watermark is above the log end offset: committed records are missing on this disk."),
    FindingKind("KD-CKPT-LOG-START", ERROR, TRUNCATES, ways.LOG_START, "checkpoints",
        "The log start offset is above the log end offset: a broker deletes all segments."),
    FindingKind("KD-CKPT-ORDER", WARNING, IGNORES, ways.CORRECTED, "checkpoints",
        "The log start offset is above the high watermark."),
    FindingKind("KD-CKPT-CLEANER", WARNING, IGNORES, ways.CLEANER, "checkpoints",
        "The cleaner's offset is above the log end offset."),
    FindingKind("KD-CKPT-STALE", INFO, IGNORES, (), "checkpoints",
        "A checkpoint has a line for a partition that is not here."),
    FindingKind("KD-CKPT-CLEANER-TWICE", WARNING, BLOCKS_COMPACTION, ways.CLEANER_TWICE, "directory",
        "The cleaner's checkpoints of two log directories have a line for one partition."),
    # directories and the files of other kinds
    FindingKind("KD-DIR-NAME", ERROR, REFUSES, ways.SET_DIRECTORY_ASIDE, "directory",
        "A directory has a name that is not a partition's."),
    FindingKind("KD-DIR-DUPLICATE", ERROR, REFUSES, ways.DUPLICATE, "directory",
        "A partition, or the move of one, is there twice."),
    FindingKind("KD-DIR-DELETE", INFO, IGNORES, (), "directory", "A partition waits for its deletion."),
    FindingKind("KD-DIR-FUTURE", INFO, IGNORES, (), "directory",
        "A partition is being moved here from another log directory."),
    FindingKind("KD-DIR-STRAY", INFO, IGNORES, ways.STRAY, "directory",
        "A partition that this broker was not assigned is set aside."),
    FindingKind("KD-DIR-UNASSIGNED", WARNING, SETS_ASIDE, ways.UNASSIGNED, "cluster",
        "The cluster's metadata does not have the replica on this broker."),
    FindingKind("KD-CHANGE-UNFINISHED", ERROR, IGNORES, ways.UNFINISHED, "changes",
        "A change by kdump was interrupted: some files are what they were, some what they were to become."),
    FindingKind("KD-FILE-DELETED", INFO, IGNORES, (), "directory", "A file waits for its deletion."),
    FindingKind("KD-FILE-CLEANED", WARNING, IGNORES, ways.LEFT_ALONE, "directory",
        "A cleaning or split was interrupted; a broker deletes what it had written."),
    FindingKind("KD-FILE-SWAP", WARNING, REBUILDS, ways.SWAP, "directory",
        "A replacement of segments was interrupted; a broker completes it, or drops it where a .cleaned is left."),
    FindingKind("KD-FILE-TMP", INFO, IGNORES, ways.LEFT_ALONE, "directory",
        "A file was being written and its writer was interrupted."),
    FindingKind("KD-META-PARTITION", ERROR, GOES_OFFLINE, ways.PARTITION_METADATA, "directory",
        "partition.metadata cannot be parsed."),
    FindingKind("KD-META-PARTITION-MISSING", INFO, SETS_ASIDE, ways.PARTITION_METADATA, "directory",
        "There is no partition.metadata: a KRaft broker sets the replica aside, and an empty one takes its place."),
    FindingKind("KD-META-TOPIC-ID", ERROR, SERVES_WRONG_DATA, ways.TOPIC_ID, "directory",
        "Partitions of one topic have different topic ids."),
    FindingKind("KD-META-TOPIC-CLUSTER", ERROR, SETS_ASIDE, ways.TOPIC_ID, "cluster",
        "partition.metadata has another topic id than the cluster has for a topic of that name: it is not served."),
    FindingKind("KD-META-CLUSTER", WARNING, REFUSES, ways.CLUSTER_METADATA, "cluster",
        "Cluster metadata that is damaged or contradicts itself: partitions are not checked against it."),
    FindingKind("KD-META-NODES", INFO, REFUSES, (), "directory",
        "Log directories of several nodes are verified together; no broker starts with them."),
    FindingKind("KD-META-PROPERTIES", ERROR, GOES_OFFLINE, ways.META_PROPERTIES, "directory",
        "meta.properties cannot be parsed."),
    FindingKind("KD-META-SHUTDOWN", WARNING, IGNORES, (), "directory",
        ".kafka_cleanshutdown cannot be parsed; that it is there still counts."),
    FindingKind("KD-KRAFT-STATE", ERROR, REFUSES, ways.QUORUM_STATE, "directory", "quorum-state cannot be parsed."),
    FindingKind("KD-KRAFT-SNAPSHOT", ERROR, REFUSES, ways.KRAFT_SNAPSHOT, "kraft",
        "A KRaft snapshot does not begin with a header or end with a footer."),
    # what could not be looked at
    FindingKind("KD-READ", ERROR, GOES_OFFLINE, ways.UNREAD, "partition",
        "Something could not be read, so it was not checked."),
)
# fmt: on

CATALOGUE: dict[str, FindingKind] = {kind.code: kind for kind in _KINDS}
"""Code → what it stands for."""
