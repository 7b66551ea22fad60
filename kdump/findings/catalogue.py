"""The catalogue of everything that `kdump verify` can find: stable codes, what each means, and what a broker does.

A code never changes its meaning once released; what a script matches is the code, never the message.
"""

from __future__ import annotations

from typing import NamedTuple

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)

WRONG = "serves wrong data silently"
TRUNCATES = "truncates here and drops all later segments at unclean start"
REBUILDS = "rebuilds at start"
IGNORES = "ignores"
REFUSES = "refuses to start / takes the directory offline"
RETENTION = "blocks retention"
COMPACTION = "blocks compaction"
STALLS = "stalls read_committed consumers"

BROKER = (WRONG, TRUNCATES, REBUILDS, IGNORES, REFUSES, RETENTION, COMPACTION, STALLS)
"""The phrases that say what a broker does about a finding."""


class Kind(NamedTuple):
    """One entry of the catalogue; `broker` is one of BROKER, `repair` says what fits."""

    code: str
    severity: str
    meaning: str
    broker: str
    repair: str


class Finding(NamedTuple):
    """Something that is wrong, odd or worth knowing, and where.

    `position` is a byte position in the file at `path`, `offset` an absolute offset; None where there is none.
    """

    code: str
    severity: str
    path: str
    position: int | None
    offset: int | None
    message: str

    @property
    def meaning(self) -> str:
        """What findings of this code mean, in one sentence."""
        return CATALOGUE[self.code].meaning

    @property
    def broker(self) -> str:
        """What a broker does: one of BROKER."""
        return CATALOGUE[self.code].broker

    @property
    def repair(self) -> str:
        """The repair that fits."""
        return CATALOGUE[self.code].repair


def found(
    code: str,
    path: str,
    message: str,
    position: int | None = None,
    offset: int | None = None,
    *,
    severity: str = "",
) -> Finding:
    """A finding with its code's own severity, unless another one fits what was met."""
    return Finding(code, severity or CATALOGUE[code].severity, path, position, offset, message)


_SALVAGE = "kdump repair --strategy salvage keeps every good batch; --strategy truncate cuts the log here"
_SUSPECT = "take the range from another replica, or kdump repair --strategy salvage"
_INDEX = "kdump rebuild-index, or delete the .index and let the broker rebuild it"
_TIME_INDEX = "kdump rebuild-index (a broker that misses only the .timeindex leaves it empty)"
_TXN_INDEX = "kdump rebuild-index"
_SNAPSHOT = "delete the snapshot: the broker goes back to an older one and reads the log from there"
_NONE = "none needed"
_TRIM = "kdump trim"
_CHECKPOINT = "correct the line, or delete the file: what it holds is then taken as 0"
_PRODUCER = "none in place; compare with the other replicas"
_TIMES = "kdump repair cannot know the true time; bound it by message.timestamp.after.max.ms, retain by size"

_KINDS = (
    # the log: frames, checksums, offsets
    Kind("KD-LOG-CRC", ERROR, "The bytes of a batch are not those that its CRC was computed of.", TRUNCATES, _SALVAGE),
    Kind(
        "KD-LOG-SIZE", ERROR, "A size field holds what no entry's can, so the walk over the log ends there.",
        TRUNCATES, _SALVAGE,
    ),
    Kind("KD-LOG-TORN", ERROR, "The log ends inside a batch.", TRUNCATES, "kdump repair cuts the torn batch off"),
    Kind(
        "KD-LOG-GARBAGE", ERROR, "The log ends with bytes that are not the beginning of a batch.",
        TRUNCATES, "kdump repair cuts them off",
    ),
    Kind("KD-LOG-ZEROS", ERROR, "Zeros stand where batches should, up to the end of the log.", TRUNCATES, _TRIM),
    Kind(
        "KD-LOG-PREALLOCATED", WARNING, "The active segment ends with zeros, as preallocation leaves it after a crash.",
        REBUILDS, _TRIM,
    ),
    Kind(
        "KD-LOG-BEYOND", WARNING, "Good batches lie behind damage, where a broker's recovery would drop them.",
        TRUNCATES, "kdump repair --strategy salvage",
    ),
    Kind(
        "KD-LOG-MAGIC", ERROR, "A batch has a magic that no release knows: consumers and the cleaner fail there.",
        COMPACTION, _SUSPECT,
    ),
    Kind("KD-LOG-ORDER", ERROR, "Offsets do not increase from one batch to the next.", WRONG, _SUSPECT),
    Kind(
        "KD-LOG-BASE", ERROR, "A batch has an offset below its segment's base offset, which the file name says.",
        REFUSES, _SUSPECT,
    ),
    Kind(
        "KD-LOG-OVERLAP", ERROR, "A batch has an offset that belongs to the next segment, which hides it.",
        WRONG, _SUSPECT,
    ),
    Kind(
        "KD-LOG-OFFSET", ERROR,
        "A batch has an offset too far above its segment's base offset for indexes, later ones have not.",
        REFUSES, _SUSPECT,
    ),
    Kind(
        "KD-LOG-OVERFLOW", ERROR, "The offsets of a segment end too far from its base offset for the indexes' 31 bits.",
        REBUILDS, "start the broker: it splits the segment",
    ),
    Kind("KD-LOG-EMPTY", INFO, "A segment that is not the last one is empty, as cleaning leaves it.", IGNORES, _NONE),
    Kind(
        "KD-LOG-LARGE", ERROR, "A .log is larger than the 2147483647 bytes that a segment may have.",
        REFUSES, "split the segment",
    ),
    Kind(
        "KD-LOG-NAME", ERROR, "A file's name ends as a segment's does, but does not begin with an offset.",
        REFUSES, "move the file out of the directory",
    ),
    # batches: headers and, with --deep, records
    Kind(
        "KD-BATCH-DELTA", ERROR, "A batch's last offset delta cannot be: below 0, or too small for its records.",
        WRONG, _SUSPECT,
    ),
    Kind(
        "KD-BATCH-COUNT", ERROR,
        "A batch's record count cannot be: below 0, or none although there are bytes of records.",
        WRONG, _SUSPECT,
    ),
    Kind("KD-BATCH-ATTRIBUTES", ERROR, "A batch's attributes contradict its other fields.", WRONG, _SUSPECT),
    Kind("KD-BATCH-BITS", WARNING, "A batch has attribute bits set that no release gives a meaning.", IGNORES, _NONE),
    Kind(
        "KD-BATCH-CODEC", ERROR,
        "A payload cannot be decompressed (unknown codec, or broken): consumers and the cleaner fail there.",
        COMPACTION, _SUSPECT,
    ),
    Kind(
        "KD-BATCH-PRODUCER", ERROR, "A batch's producer id, producer epoch and sequence do not go together.",
        WRONG, _SUSPECT,
    ),
    Kind(
        "KD-BATCH-RECORDS", ERROR,
        "The records of a batch cannot be decoded although its CRC holds: consumers and the cleaner fail there.",
        COMPACTION, _SUSPECT,
    ),
    Kind(
        "KD-BATCH-OFFSETS", ERROR, "Records have offsets out of order, or outside what their batch's header says.",
        WRONG, _SUSPECT,
    ),
    Kind(
        "KD-BATCH-MAX-TIMESTAMP", ERROR,
        "A batch's max timestamp is below that of a record in it: lookups by time miss the record.",
        WRONG, _SUSPECT,
    ),
    Kind(
        "KD-BATCH-MAX-TIMESTAMP-HIGH", WARNING, "A batch's max timestamp is above that of every record in it.",
        WRONG, _SUSPECT,
    ),
    Kind(
        "KD-BATCH-MESSAGE-CRC", ERROR,
        "A message inside a compressed v0/v1 batch breaks its own CRC, which readers do not check.",
        WRONG, _SUSPECT,
    ),
    Kind(
        "KD-BATCH-MESSAGE-LENGTH", WARNING,
        "Key and value lengths of a v0/v1 message are not as any writer writes them.",
        WRONG, _SUSPECT,
    ),
    Kind("KD-BATCH-CONTROL", ERROR, "A control batch does not hold a control record that fits it.", REFUSES, _SALVAGE),
    Kind(
        "KD-BATCH-CONTROL-VERSION", WARNING,
        "A control record has a version that no release writes; readers take it for version 0.",
        IGNORES, _NONE,
    ),
    Kind(
        "KD-VALUE-UNDECODABLE", WARNING, "A record of an internal topic is not of a form that Kafka's releases write.",
        IGNORES, _SUSPECT,
    ),
    # leader epochs
    Kind(
        "KD-EPOCH-ORDER", ERROR, "Leader epochs decrease along the log; the CRC does not cover them.",
        WRONG, _SUSPECT,
    ),
    Kind(
        "KD-EPOCH-CHECKPOINT", ERROR, "leader-epoch-checkpoint and the batches of the log do not agree.",
        WRONG, "kdump repair writes the file from the log",
    ),
    Kind(
        "KD-EPOCH-LOG-START", INFO,
        "leader-epoch-checkpoint begins above the first batch: the log start offset was there once, and is forgotten.",
        IGNORES, _NONE,
    ),
    Kind(
        "KD-EPOCH-BEYOND", WARNING, "leader-epoch-checkpoint has an entry beyond the end of the log.",
        REBUILDS, _NONE,
    ),
    Kind(
        "KD-EPOCH-FORMAT", ERROR, "leader-epoch-checkpoint cannot be parsed, or its entries are out of order.",
        REFUSES, "kdump repair writes the file from the log",
    ),
    # producers and transactions
    Kind(
        "KD-PRODUCER-SEQUENCE", WARNING, "A producer's sequence numbers jump within one producer epoch.",
        IGNORES, _PRODUCER,
    ),
    Kind("KD-PRODUCER-EPOCH", WARNING, "A producer's epoch goes back.", IGNORES, _PRODUCER),
    Kind(
        "KD-TXN-MIXED", ERROR, "Data that is not transactional lies inside its producer's open transaction.",
        REFUSES, _SALVAGE,
    ),
    Kind(
        "KD-TXN-HANGING", WARNING, "A transaction is open for longer than any coordinator allows.",
        STALLS, "kafka-transactions.sh abort, once the broker runs",
    ),
    Kind("KD-TXN-OPEN", INFO, "A transaction is open at the end of the log.", IGNORES, _NONE),
    Kind(
        "KD-TXN-MISSING", ERROR, "An aborted transaction is not in the .txnindex: its records are served as committed.",
        WRONG, _TXN_INDEX,
    ),
    Kind(
        "KD-TXN-ORPHAN", ERROR,
        "A .txnindex entry names a marker that is not in its segment: committed records may be hidden.",
        WRONG, _TXN_INDEX,
    ),
    Kind(
        "KD-TXN-ENTRY", ERROR, "A .txnindex entry breaks its format or its order, or begins behind its transaction.",
        WRONG, _TXN_INDEX,
    ),
    Kind(
        "KD-TXN-BASE", ERROR, "A .txnindex entry ends below its segment's base offset.",
        REBUILDS, "start the broker: it rebuilds the segment's indexes",
    ),
    Kind("KD-TXN-VERSION", ERROR, "A .txnindex entry has an unknown version.", REFUSES, _TXN_INDEX),
    Kind("KD-TXN-LENGTH", ERROR, "A .txnindex ends inside an entry.", IGNORES, _TXN_INDEX),
    # timestamps
    Kind(
        "KD-TIME-FUTURE", WARNING, "Timestamps lie in the future: this segment and all newer ones are kept until then.",
        RETENTION, _TIMES,
    ),
    Kind(
        "KD-TIME-UNIT", WARNING,
        "Timestamps are in seconds, microseconds or nanoseconds where Kafka wants milliseconds.",
        RETENTION, _TIMES,
    ),
    Kind("KD-TIME-NEGATIVE", WARNING, "Timestamps are negative although only -1 (none) may be.", IGNORES, _TIMES),
    Kind(
        "KD-TIME-ABSENT", INFO,
        "Batches have no timestamp: retention goes by the file's time where a whole segment has none.",
        RETENTION, _NONE,
    ),
    Kind("KD-TIME-ORDER", INFO, "Timestamps do not increase along the log.", IGNORES, _NONE),
    Kind(
        "KD-TIME-TYPE", WARNING,
        "One batch's timestamp type differs from that of its neighbours, although it is the topic's.",
        WRONG, _SUSPECT,
    ),
    Kind("KD-TIME-HELD", INFO, "What keeps a segment from being deleted by time, and until when.", IGNORES, _NONE),
    # offset index
    Kind("KD-IDX-LENGTH", ERROR, "The length of an .index is no multiple of 8.", IGNORES, _INDEX),
    Kind("KD-IDX-ORDER", ERROR, "Offsets or positions of an .index do not increase.", WRONG, _INDEX),
    Kind("KD-IDX-POSITION", ERROR, "An .index entry does not lead to the start of a batch.", WRONG, _INDEX),
    Kind(
        "KD-IDX-OFFSET", ERROR,
        "An .index entry names an offset that is not the last one of a batch that it stands for.",
        WRONG, _INDEX,
    ),
    Kind("KD-IDX-ZEROS", ERROR, "An .index ends with zeros that a search takes for entries.", WRONG, _TRIM),
    Kind(
        "KD-IDX-PREALLOCATED", INFO,
        "The active segment's .index ends with zeros, as preallocation leaves it after a crash.",
        REBUILDS, _TRIM,
    ),
    Kind(
        "KD-IDX-LEFTOVER", INFO,
        "The active segment's .index ends with entries of a log that was truncated before the broker was killed.",
        REBUILDS, _NONE,
    ),
    Kind(
        "KD-IDX-EMPTY", WARNING,
        "A segment's .index is empty although its .timeindex has entries, which are written together.",
        IGNORES, _INDEX,
    ),
    Kind("KD-IDX-MISSING", WARNING, "A segment has no .index.", REBUILDS, _INDEX),
    Kind(
        "KD-IDX-ORPHAN", WARNING, "An index file has no .log; a broker deletes it at start.",
        IGNORES, "delete the file",
    ),
    Kind(
        "KD-IDX-SPARSE", INFO, "An .index has stretches without entries: lookups there read much of the log.",
        IGNORES, _INDEX,
    ),
    # time index
    Kind("KD-TIDX-LENGTH", ERROR, "The length of a .timeindex is no multiple of 12.", IGNORES, _TIME_INDEX),
    Kind("KD-TIDX-ORDER", ERROR, "Timestamps or offsets of a .timeindex do not increase.", WRONG, _TIME_INDEX),
    Kind("KD-TIDX-OFFSET", ERROR, "A .timeindex entry names an offset that is not in the segment.", WRONG, _TIME_INDEX),
    Kind(
        "KD-TIDX-TIMESTAMP", ERROR, "A .timeindex entry's timestamp is not the largest one up to its offset.",
        WRONG, _TIME_INDEX,
    ),
    Kind(
        "KD-TIDX-LAST", ERROR,
        "The last .timeindex entry is not the segment's largest timestamp, by which retention goes.",
        WRONG, _TIME_INDEX,
    ),
    Kind(
        "KD-TIDX-ZEROS", ERROR,
        "A .timeindex ends with zeros that a search takes for entries, and by which retention deletes the segment.",
        WRONG, _TRIM,
    ),
    Kind(
        "KD-TIDX-PREALLOCATED", INFO,
        "The active segment's .timeindex ends with zeros, as preallocation leaves it after a crash.",
        REBUILDS, _TRIM,
    ),
    Kind(
        "KD-TIDX-LEFTOVER", INFO,
        "The active segment's .timeindex ends with entries of a log that was truncated before the broker was killed.",
        REBUILDS, _NONE,
    ),
    Kind(
        "KD-TIDX-MISSING", WARNING, "A segment has no .timeindex: retention and lookups by time go by the file's time.",
        IGNORES, _TIME_INDEX,
    ),
    # producer snapshots
    Kind("KD-SNAP-CORRUPT", ERROR, "A producer snapshot breaks its format or its CRC.", REBUILDS, _SNAPSHOT),
    Kind(
        "KD-SNAP-STATE", WARNING, "A producer snapshot and the log before it do not agree on a producer.",
        WRONG, _SNAPSHOT,
    ),
    Kind(
        "KD-SNAP-STRAY", INFO, "A producer snapshot belongs to no segment; a broker deletes it at start.",
        IGNORES, "delete the file",
    ),
    # checkpoints
    Kind(
        "KD-CKPT-FORMAT", ERROR, "A checkpoint file cannot be parsed; a broker takes all its offsets as 0.",
        IGNORES, _CHECKPOINT,
    ),
    Kind(
        "KD-CKPT-RECOVERY", ERROR, "The recovery point lies beyond the end of the log: flushed records are gone.",
        WRONG, "take the partition from another replica",
    ),
    Kind(
        "KD-CKPT-BEHIND", WARNING,
        "The recovery point is not the log's end although the log was closed in order: something came behind it.",
        IGNORES, "none in place; compare with the other replicas",
    ),
    Kind(
        "KD-CKPT-HIGH-WATERMARK", ERROR,
        "The high watermark lies beyond the end of the log: replicated records are gone.",
        WRONG, "take the partition from another replica",
    ),
    Kind(
        "KD-CKPT-LOG-START", ERROR,
        "The log start offset lies beyond the end of the log: a broker deletes all segments.",
        TRUNCATES, "correct the line in log-start-offset-checkpoint before the broker starts",
    ),
    Kind("KD-CKPT-ORDER", WARNING, "The log start offset lies beyond the high watermark.", IGNORES, _CHECKPOINT),
    Kind(
        "KD-CKPT-CLEANER", WARNING, "The cleaner's offset lies beyond the end of the log.",
        IGNORES, "delete the line: the cleaner starts over",
    ),
    Kind("KD-CKPT-STALE", INFO, "A checkpoint has a line for a partition that is not here.", IGNORES, _NONE),
    # directories and the files of other kinds
    Kind(
        "KD-DIR-NAME", ERROR, "A directory has a name that is not a partition's.",
        REFUSES, "move the directory out of the log directory",
    ),
    Kind(
        "KD-DIR-DUPLICATE", ERROR, "A partition is there twice.",
        REFUSES, "move the wrong one out of the log directory; kdump replicas compares them",
    ),
    Kind("KD-DIR-DELETE", INFO, "A partition waits for its deletion.", IGNORES, _NONE),
    Kind("KD-DIR-FUTURE", INFO, "A partition is being moved here from another log directory.", IGNORES, _NONE),
    Kind(
        "KD-DIR-STRAY", INFO, "A partition that this broker was not assigned is kept aside.",
        IGNORES, "delete the directory once nobody needs it",
    ),
    Kind(
        "KD-DIR-UNASSIGNED", WARNING,
        "The cluster's metadata does not have the replica on this broker, which sets it aside (-stray) at start.",
        IGNORES, "none if it was moved or deleted on purpose; else mend what the message names before it starts",
    ),
    Kind("KD-FILE-DELETED", INFO, "A file waits for its deletion.", IGNORES, _NONE),
    Kind(
        "KD-FILE-CLEANED", WARNING, "A cleaning or split was interrupted; a broker deletes what it had written.",
        IGNORES, "delete the file",
    ),
    Kind(
        "KD-FILE-SWAP", WARNING,
        "A replacement of segments was interrupted; a broker completes it, or drops it where a .cleaned is left.",
        REBUILDS, "start the broker; kdump startup shows what it does",
    ),
    Kind("KD-FILE-TMP", INFO, "A file was being written and its writer was interrupted.", IGNORES, "delete the file"),
    Kind(
        "KD-META-PARTITION", ERROR, "partition.metadata cannot be parsed.",
        REFUSES, "write it anew with the topic's id",
    ),
    Kind(
        "KD-META-PARTITION-MISSING", INFO,
        "There is no partition.metadata; a KRaft broker takes the replica for a stray one.",
        IGNORES, "write it anew with the topic's id",
    ),
    Kind(
        "KD-META-TOPIC-ID", ERROR, "Partitions of one topic have different topic ids.",
        REFUSES, "find out which topic the partition belongs to",
    ),
    Kind(
        "KD-META-TOPIC-CLUSTER", ERROR,
        "partition.metadata has another topic id than the cluster has for a topic of that name: it is not served.",
        IGNORES, "find out which topic the records belong to, and write it anew with that topic's id",
    ),
    Kind(
        "KD-META-CLUSTER", WARNING,
        "Cluster metadata that is damaged, contradicts itself, or is of an unknown release: partitions are not checked"
        " against it.",
        REFUSES, "kdump metadata shows what is wrong; take __cluster_metadata-0 from another node",
    ),
    Kind(
        "KD-META-NODES", INFO, "Log directories of several nodes are verified together; no broker starts with them.",
        REFUSES, "none needed, unless one broker is to have them all",
    ),
    Kind(
        "KD-META-PROPERTIES", ERROR, "meta.properties cannot be parsed.",
        REFUSES, "kafka-storage.sh, or copy from another log directory",
    ),
    Kind(
        "KD-META-SHUTDOWN", WARNING, ".kafka_cleanshutdown cannot be parsed; that it is there still counts.",
        IGNORES, _NONE,
    ),
    Kind(
        "KD-KRAFT-STATE", ERROR, "quorum-state cannot be parsed.",
        REFUSES, "delete the file: the node takes part in elections as a new one",
    ),
    Kind(
        "KD-KRAFT-SNAPSHOT", ERROR, "A KRaft snapshot does not begin with a header or end with a footer.",
        REFUSES, "delete the snapshot where another one or the whole log is there",
    ),
    # what could not be looked at
    Kind(
        "KD-READ", ERROR, "Something could not be read, so it was not checked.",
        REFUSES, "restore permissions or the device, and verify again",
    ),
)

CATALOGUE: dict[str, Kind] = {kind.code: kind for kind in _KINDS}
"""Code → what it stands for."""
