"""What the catalogue says of each finding to somebody who meets it for the first time.

In the words of people who run Kafka: what a broker does, what consumers see, how it comes about. What to do is in the
remedies of the catalogue, what Kafka itself prints in kdump.findings.kafka_messages.
"""

from __future__ import annotations

from typing import NamedTuple


class Sentence(NamedTuple):
    """What is said of a subject, or (where that is empty) a sentence that has another one."""

    subject: str
    said: str

    def __str__(self) -> str:
        return self.of(self.subject)

    def of(self, subject: str) -> str:
        """Return the sentence with another word for its subject, if it has one."""
        return f"{subject} {self.said}" if self.subject else self.said


class Explanation(NamedTuple):
    """A finding in plain words; `title` names it in two to five words, the others are sentences.

    `of_broker` has the broker as its subject, `of_consumers` those who read.
    """

    title: str
    of_broker: Sentence
    of_consumers: Sentence
    causes: str

    @property
    def broker(self) -> str:
        """What a broker does."""
        return str(self.of_broker)

    @property
    def consumers(self) -> str:
        """What those who read see."""
        return str(self.of_consumers)


def _broker(said: str) -> Sentence:
    return Sentence("The broker", said)


def _they(said: str) -> Sentence:
    return Sentence("They", said)


def _whole(text: str) -> Sentence:
    return Sentence("", text)


RECOVERY_CUTS = _whole(
    "If the broker recovers this segment, it cuts the log at this batch and drops all that follows. It recovers the"
    " segments from the recovery point on, after an unclean shutdown. Else it does not look."
)
NOT_NOTICED = _broker("does not notice.")
REBUILT = _broker("rebuilds the file at its next start.")
DELETED = _broker("deletes it at its next start.")
DISK_OFFLINE = _broker("takes the log directory offline at its start. Its other disks work.")
WILL_NOT_START = _broker("does not start.")
CLEANER_STOPS = _broker("serves the batch. The cleaner stops at it and marks the partition as uncleanable.")
READS_STOP = _they("stop at this batch: every fetch of it fails.")
NOTHING_SEEN = _they("notice nothing.")
READS_SKIP = _whole("Fetches near this place may skip records, or return none.")
TIME_LOOKUPS = _whole("Searches by time may return a wrong offset. Fetches by offset are right.")
BYTES_CHANGED = "A disk, memory or a copy changed bytes."
CRASH = "The machine or the broker stopped before all bytes were on the disk."
FOREIGN_WRITER = "A program that is not Kafka wrote the batch, or bytes changed that the CRC does not cover."
INDEX_HARM = "Bytes changed, the machine stopped while the file was written, or the file is of another copy."
OPERATOR = "Files were copied, restored or removed by hand."

_E = Explanation
# fmt: off
EXPLANATIONS: dict[str, Explanation] = {
    "KD-LOG-CRC": _E("damaged batch", RECOVERY_CUTS, READS_STOP, BYTES_CHANGED),
    "KD-LOG-SIZE": _E("damaged size field", RECOVERY_CUTS, READS_STOP, BYTES_CHANGED),
    "KD-LOG-TORN": _E("incomplete batch",
        _whole("After an unclean shutdown the broker cuts the incomplete batch. After a clean one it does not look."),
        _they("do not get the records of this batch."), CRASH),
    "KD-LOG-GARBAGE": _E("bytes that are no batch", RECOVERY_CUTS, _they("do not get past this place."), CRASH),
    "KD-LOG-ZEROS": _E("zeros at the end", _whole("After an unclean shutdown the broker cuts the zeros."),
        _they("do not get past this place."),
        "The file system made the file longer before the power failed: the length was on the disk, the data was not."),
    "KD-LOG-PREALLOCATED": _E("preallocated log", _broker("cuts the zeros at its next start."), NOTHING_SEEN,
        "log.preallocate is on and the broker was killed."),
    "KD-LOG-BEYOND": _E("valid batches after damage",
        _whole("If the broker recovers the damaged segment (from the recovery point on, after an unclean shutdown), it"
            " drops these valid batches too."),
        _they("do not reach these records: they stop at the damage before them."), BYTES_CHANGED),
    "KD-LOG-MAGIC": _E("unknown message format", CLEANER_STOPS, READS_STOP, FOREIGN_WRITER),
    "KD-LOG-ORDER": _E("offsets out of order", NOT_NOTICED, READS_SKIP,
        "Segments of two copies were put together, or a program that is not Kafka wrote here."),
    "KD-LOG-BASE": _E("offset below the base offset", NOT_NOTICED, READS_SKIP, OPERATOR),
    "KD-LOG-OVERLAP": _E("overlapping segments", NOT_NOTICED, _they("get these offsets from the next segment alone."),
        OPERATOR),
    "KD-LOG-OFFSET": _E("offset too large for its segment",
        _broker("does not start when it has to recover this segment."), READS_SKIP, FOREIGN_WRITER),
    "KD-LOG-OVERFLOW": _E("offset range too large",
        _broker("splits the segment into several when it recovers it."), NOTHING_SEEN,
        "Compaction in Kafka before 1.1.1 merged segments that are too far apart."),
    "KD-LOG-EMPTY": _E("empty segment", _broker("keeps it until retention deletes it."), NOTHING_SEEN,
        "Compaction removed every record of the segment."),
    "KD-LOG-LARGE": _E("segment file too large", WILL_NOT_START, _they("wait for the broker."), OPERATOR),
    "KD-LOG-REWRITTEN": _E("segment with other batches than before", NOT_NOTICED,
        _they("read what is in the file now."),
        "Something other than a broker wrote into the file: a restore, a disk."),
    "KD-LOG-NAME": _E("file name without an offset", WILL_NOT_START, _they("wait for the broker."), OPERATOR),
    "KD-BATCH-DELTA": _E("impossible last offset", NOT_NOTICED, READS_SKIP, FOREIGN_WRITER),
    "KD-BATCH-COUNT": _E("impossible record count", NOT_NOTICED, READS_STOP, FOREIGN_WRITER),
    "KD-BATCH-ATTRIBUTES": _E("contradicting attributes", NOT_NOTICED,
        _they("may treat records as another kind than they are."), FOREIGN_WRITER),
    "KD-BATCH-BITS": _E("unknown attribute bits", _broker("ignores the bits."), NOTHING_SEEN,
        "A newer release or a fork of Kafka wrote the batch."),
    "KD-BATCH-CODEC": _E("payload that cannot be decompressed", CLEANER_STOPS, READS_STOP,
        "The producer compressed wrongly, or uses a codec that Kafka does not have."),
    "KD-BATCH-PRODUCER": _E("contradicting producer fields", NOT_NOTICED, NOTHING_SEEN, FOREIGN_WRITER),
    "KD-BATCH-RECORDS": _E("records that cannot be decoded", CLEANER_STOPS, READS_STOP,
        "The producer wrote records that its batch header contradicts."),
    "KD-BATCH-OFFSETS": _E("record offsets out of order", NOT_NOTICED, READS_SKIP, FOREIGN_WRITER),
    "KD-BATCH-MAX-TIMESTAMP": _E("max timestamp too small",
        _broker("writes the time index and decides on retention by it: records may be deleted early."),
        TIME_LOOKUPS, "The producer or a converter wrote a wrong max timestamp."),
    "KD-BATCH-MAX-TIMESTAMP-HIGH": _E("max timestamp too large",
        _broker("keeps the segment longer than retention asks for."), TIME_LOOKUPS,
        "Compaction removed the record with the largest timestamp, or the producer wrote a wrong one."),
    "KD-BATCH-MESSAGE-CRC": _E("damaged inner message", NOT_NOTICED, _they("get changed records without an error."),
        BYTES_CHANGED),
    "KD-BATCH-MESSAGE-LENGTH": _E("unusual message lengths", NOT_NOTICED, _they("may get changed keys or values."),
        BYTES_CHANGED),
    "KD-BATCH-CONTROL": _E("damaged control record", _broker("does not start when it has to recover this segment."),
        READS_STOP, BYTES_CHANGED),
    "KD-BATCH-CONTROL-VERSION": _E("unknown control record version", _broker("reads it as version 0."), NOTHING_SEEN,
        "A newer release or a fork of Kafka wrote the record."),
    "KD-VALUE-UNDECODABLE": _E("unreadable internal record",
        _broker("skips the record, or fails to load the partition: it depends on the record."), NOTHING_SEEN,
        "A fork of Kafka wrote it, or an application wrote to an internal topic."),
    "KD-EPOCH-ORDER": _E("leader epochs go back", _broker("may truncate at a wrong offset when it follows a leader."),
        NOTHING_SEEN, "Bytes changed that the CRC does not cover, or segments of two copies were put together."),
    "KD-EPOCH-CHECKPOINT": _E("wrong leader epochs",
        _broker("may truncate at a wrong offset when it follows a leader."), NOTHING_SEEN, OPERATOR),
    "KD-EPOCH-LOG-START": _E("epochs begin late", _broker("ignores the difference."), NOTHING_SEEN,
        "Records were deleted, and the log start offset was lost in a crash."),
    "KD-EPOCH-BEYOND": _E("epoch above the log end", _broker("drops the entry at its next start."), NOTHING_SEEN,
        CRASH),
    "KD-EPOCH-FORMAT": _E("damaged leader epochs", DISK_OFFLINE, _they("wait for another leader."), CRASH),
    "KD-PRODUCER-SEQUENCE": _E("gap in sequence numbers",
        _broker("does not check batches that it has written already."),
        _whole("Records may be missing between two that they get."),
        "Retention or delete-records removed the records between, or a broker lost them."),
    "KD-PRODUCER-EPOCH": _E("producer epoch goes back",
        _broker("does not check batches that it has written already."),
        NOTHING_SEEN, "Two producers shared a transactional id, or segments of two copies were put together."),
    "KD-TXN-MIXED": _E("data outside its transaction", _broker("does not start when it has to recover this segment."),
        _whole("read_committed consumers may get records of a transaction that is aborted later."), FOREIGN_WRITER),
    "KD-TXN-HANGING": _E("hanging transaction",
        _broker("keeps the last stable offset before it, and the cleaner does not pass it."),
        _whole("read_committed consumers stop at its first offset. Others notice nothing."),
        "The producer wrote after its transaction had been ended (KAFKA-12671), or the coordinator lost its state."),
    "KD-TXN-OPEN": _E("open transaction", _broker("ends it when the producer commits, aborts or times out."),
        _whole("read_committed consumers wait at its first offset."),
        "A producer was in a transaction when the log ended."),
    "KD-TXN-MISSING": _E("aborted transaction not indexed", NOT_NOTICED,
        _whole("read_committed consumers get the records of an aborted transaction."), INDEX_HARM),
    "KD-TXN-ORPHAN": _E("transaction index without marker", NOT_NOTICED,
        _whole("read_committed consumers may miss committed records."), INDEX_HARM),
    "KD-TXN-ENTRY": _E("damaged transaction index", NOT_NOTICED,
        _whole("read_committed consumers may get aborted records, or miss committed ones."), INDEX_HARM),
    "KD-TXN-BASE": _E("transaction index of another segment",
        _broker("recovers the segment and rebuilds the file at its next start."), NOTHING_SEEN, INDEX_HARM),
    "KD-TXN-VERSION": _E("unknown transaction index version",
        _broker("does not start: it reads the file when it loads the log."), _they("wait for the broker."), INDEX_HARM),
    "KD-TXN-LENGTH": _E("cut transaction index", _broker("reads the complete entries."),
        _whole("read_committed consumers may get the records of an aborted transaction."), CRASH),
    "KD-TIME-FUTURE": _E("timestamps in the future",
        _broker("keeps this segment and all newer ones until the timestamps are old enough."), TIME_LOOKUPS,
        "A producer's clock was wrong, or it wrote another unit than milliseconds."),
    "KD-TIME-UNIT": _E("timestamps in another unit", _broker("treats them as milliseconds when it decides on"
        " retention."), TIME_LOOKUPS, "A producer wrote seconds, microseconds or nanoseconds."),
    "KD-TIME-NEGATIVE": _E("negative timestamps", _broker("treats them as older than all others."), TIME_LOOKUPS,
        "A producer or an import wrote dates before 1970."),
    "KD-TIME-ABSENT": _E("no timestamps", _broker("decides on retention by the time of the file."),
        _whole("Searches by time find nothing here."),
        "The batches have message format v0, or no timestamp was given."),
    "KD-TIME-ORDER": _E("timestamps out of order", _broker("ignores it."), NOTHING_SEEN,
        "Several producers, or an import of old records: this is common with CreateTime."),
    "KD-TIME-TYPE": _E("mixed timestamp types", NOT_NOTICED,
        _they("get some times of the producer, some of the broker."),
        "message.timestamp.type was changed, or segments of two topics were put together."),
    "KD-TIME-HELD": _E("segment kept by its timestamps", _broker("deletes it when its largest timestamp is old"
        " enough."), NOTHING_SEEN, "Records with late timestamps."),
    "KD-IDX-LENGTH": _E("cut offset index", _broker("rebuilds the file only if it recovers the segment."),
        NOTHING_SEEN, CRASH),
    "KD-IDX-ORDER": _E("offset index out of order", NOT_NOTICED, READS_SKIP, INDEX_HARM),
    "KD-IDX-POSITION": _E("wrong position in offset index", NOT_NOTICED, READS_SKIP, INDEX_HARM),
    "KD-IDX-OFFSET": _E("wrong offset in offset index", NOT_NOTICED, READS_SKIP, INDEX_HARM),
    "KD-IDX-ZEROS": _E("offset index ends in zeros", NOT_NOTICED,
        _whole("Fetches from this segment read from its beginning, or skip records."), INDEX_HARM),
    "KD-IDX-PREALLOCATED": _E("preallocated offset index", _broker("trims it at its next start."), NOTHING_SEEN,
        "The broker was killed: a clean shutdown trims the file."),
    "KD-IDX-LEFTOVER": _E("old entries in offset index", REBUILT, NOTHING_SEEN,
        "The log was truncated before the broker was killed."),
    "KD-IDX-EMPTY": _E("empty offset index", _broker("searches the log from the beginning of the segment."),
        _whole("Fetches are slower."), INDEX_HARM),
    "KD-IDX-MISSING": _E("no offset index", _broker("recovers the segment and rebuilds the file at its next start."),
        _whole("Fetches are slower, or fail."), OPERATOR),
    "KD-IDX-ORPHAN": _E("index without a log", DELETED, NOTHING_SEEN, OPERATOR),
    "KD-IDX-SPARSE": _E("sparse offset index", _broker("reads more of the log for a fetch."),
        _whole("Fetches are slower."),
        "log.index.interval.bytes is large, or a release before 4.1 copied large batches."),
    "KD-TIDX-LENGTH": _E("cut time index", _broker("rebuilds the file only if it recovers the segment."),
        NOTHING_SEEN, CRASH),
    "KD-TIDX-ORDER": _E("time index out of order", NOT_NOTICED, TIME_LOOKUPS, INDEX_HARM),
    "KD-TIDX-OFFSET": _E("wrong offset in time index", NOT_NOTICED, TIME_LOOKUPS, INDEX_HARM),
    "KD-TIDX-TIMESTAMP": _E("wrong timestamp in time index", NOT_NOTICED, TIME_LOOKUPS, INDEX_HARM),
    "KD-TIDX-LAST": _E("wrong last time index entry",
        _broker("decides on retention by it: the segment may be deleted early or late."), TIME_LOOKUPS, INDEX_HARM),
    "KD-TIDX-ZEROS": _E("time index ends in zeros",
        _broker("treats the segment as written in 1970, and retention deletes it soon after the start."),
        _they("lose the records of the segment when it is deleted."), INDEX_HARM),
    "KD-TIDX-PREALLOCATED": _E("preallocated time index", _broker("trims it at its next start."), NOTHING_SEEN,
        "The broker was killed: a clean shutdown trims the file."),
    "KD-TIDX-LEFTOVER": _E("old entries in time index", REBUILT, NOTHING_SEEN,
        "The log was truncated before the broker was killed."),
    "KD-TIDX-MISSING": _E("no time index",
        _broker("makes an empty one at its next start and decides on retention by the time of the file."),
        _whole("Searches by time may return a wrong offset."), OPERATOR),
    "KD-SNAP-CORRUPT": _E("damaged producer snapshot",
        _broker("deletes it at its start and rebuilds the producers from the log."), NOTHING_SEEN, CRASH),
    "KD-SNAP-STATE": _E("wrong producer snapshot", _broker("may refuse a producer that is right, or accept a record"
        " twice."), _they("may get a record twice."), OPERATOR),
    "KD-SNAP-LARGE": _E("too many producers in a snapshot", _broker("deletes it at its start and knows only the"
        " producers whose batches are still in the log. Up to 4.1, and with 4.3, it takes the file."),
        _they("may get a record twice."), "Clients that open a new idempotent producer for each request or task."),
    "KD-SNAP-STRAY": _E("producer snapshot without a segment", DELETED, NOTHING_SEEN, OPERATOR),
    "KD-CKPT-FORMAT": _E("damaged checkpoint file", _broker("treats all its offsets as 0, or takes the log directory"
        " offline: kdump startup shows which."), NOTHING_SEEN, CRASH),
    "KD-CKPT-RECOVERY": _E("flushed records are missing",
        _broker("begins at a smaller offset; as a follower it fetches the missing records again."),
        _they("miss records if this replica becomes leader."), OPERATOR),
    "KD-CKPT-BEHIND": _E("log changed after shutdown", _broker("ignores it."), NOTHING_SEEN, OPERATOR),
    "KD-CKPT-HIGH-WATERMARK": _E("committed records are missing",
        _broker("begins with a smaller high watermark; as a follower it fetches the missing records again."),
        _they("miss committed records if this replica becomes leader."), "The log was cut, or is of an older copy."),
    "KD-CKPT-LOG-START": _E("log start above log end",
        _broker("deletes all segments of the partition at its start."), _they("find an empty partition."), OPERATOR),
    "KD-CKPT-ORDER": _E("log start above high watermark", _broker("ignores it."), NOTHING_SEEN, OPERATOR),
    "KD-CKPT-CLEANER": _E("cleaner offset above log end", _broker("resets the cleaner's offset for this partition."),
        NOTHING_SEEN, "The log was cut after a cleaning."),
    "KD-CKPT-STALE": _E("checkpoint of an absent partition", _broker("drops the line when it writes the file."),
        NOTHING_SEEN, "The partition was moved or deleted."),
    "KD-CKPT-CLEANER-TWICE": _E("two cleaner offsets of a partition",
        _whole("From Kafka 4.1 on the cleaner's thread ends soon after the start: the broker compacts nothing until it"
            " starts again. Up to 4.0 it may clean the partition again and again."), NOTHING_SEEN,
        "The partition was moved to another disk by hand."),
    "KD-DIR-NAME": _E("directory that is no partition", WILL_NOT_START, _they("wait for the broker."), OPERATOR),
    "KD-DIR-DUPLICATE": _E("partition in two places", WILL_NOT_START, _they("wait for the broker."),
        "A disk failed while the broker moved the partition, or a directory was copied by hand."),
    "KD-DIR-DELETE": _E("partition waits for deletion", _broker("deletes it one minute after its start"
        " (file.delete.delay.ms)."), NOTHING_SEEN, "The topic was deleted, or the partition was moved away."),
    "KD-DIR-FUTURE": _E("partition is being moved", _broker("continues the move after its start."), NOTHING_SEEN,
        "A move between log directories was not finished."),
    "KD-DIR-STRAY": _E("partition was set aside", _broker("keeps it and serves nothing of it."), NOTHING_SEEN,
        "The cluster metadata did not have this replica when the broker started."),
    "KD-DIR-UNASSIGNED": _E("replica not assigned here",
        _broker("renames the directory to -stray at its start and serves nothing of it."),
        _they("read from the replicas that the metadata has."),
        "The topic was deleted or moved while the broker was down, or the disk is of another broker."),
    "KD-CHANGE-UNFINISHED": _E("interrupted change", _broker("uses the files as they are: some old, some new."),
        _they("may stop, or miss records."), "kdump was interrupted while it applied a plan."),
    "KD-FILE-DELETED": _E("file waits for deletion", DELETED, NOTHING_SEEN, "The broker stopped before it deleted it."),
    "KD-FILE-CLEANED": _E("interrupted cleaning", DELETED, NOTHING_SEEN, "The broker stopped while it compacted."),
    "KD-FILE-SWAP": _E("interrupted replacement of segments",
        _broker("finishes the replacement at its start, or drops it when a .cleaned file is left."), NOTHING_SEEN,
        "The broker stopped while it put compacted segments in place."),
    "KD-FILE-SWAP-DAMAGED": _E("damaged replacement of segments",
        _broker("puts the damaged file in the place of the segments at its start, and deletes these. If it cannot"
        " find the end of the damaged file, it does not start."), READS_STOP, BYTES_CHANGED),
    "KD-FILE-TMP": _E("temporary file", _broker("ignores it."), NOTHING_SEEN, "The broker stopped while it wrote."),
    "KD-META-PARTITION": _E("damaged partition.metadata",
        _broker("takes the log directory offline, or does not start: kdump startup shows which."),
        _they("wait for another leader."), CRASH),
    "KD-META-PARTITION-MISSING": _E("no partition.metadata",
        _whole("A broker in KRaft mode sets the replica aside (-stray) and makes an empty one."),
        _they("read from the other replicas."), OPERATOR),
    "KD-META-TOPIC-ID": _E("two topic ids for one topic", _broker("sets the directories with the wrong id aside."),
        _they("read from the other replicas."), "The topic was deleted and created again, or disks were mixed up."),
    "KD-META-TOPIC-CLUSTER": _E("topic id of another topic",
        _broker("renames the directory to -stray at its start and serves nothing of it."),
        _they("read from the replicas that the metadata has."),
        "The topic was deleted and created again while the broker was down, or the disk is of another cluster."),
    "KD-META-CLUSTER": _E("damaged cluster metadata",
        _whole("A controller ends at its start (Error loading metadata log record from offset N). A node with"
        " process.roles=broker stays up, but never serves."), _they("wait for the broker."), BYTES_CHANGED),
    "KD-META-NODES": _E("log directories of several nodes", _whole("No broker starts with these directories together."),
        NOTHING_SEEN, "Directories of several nodes were named together."),
    "KD-META-PROPERTIES": _E("damaged meta.properties", _broker("takes the log directory offline, or does not start:"
        " kdump startup shows which."), _they("wait for another leader."), CRASH),
    "KD-META-SHUTDOWN": _E("unusual .kafka_cleanshutdown", _broker("treats the shutdown as clean."), NOTHING_SEEN,
        OPERATOR),
    "KD-KRAFT-STATE": _E("damaged quorum-state", WILL_NOT_START, _they("wait for the broker."), CRASH),
    "KD-KRAFT-SNAPSHOT": _E("damaged KRaft snapshot", _whole("The node does not start if it is the newest snapshot. If"
        " that one ends early, the node starts, treats what is left as complete, and renames the other partitions"
        " to -stray."),
        _whole("Topics after the end of the snapshot are gone."), CRASH),
    "KD-COPY-EPOCH": _E("copies with other records",
        _broker("truncates its copy at the first offset where the leader has another epoch."),
        _they("get the leader's records. The records of the other copy at these offsets are lost."),
        "A leader died before its followers had its last records, or an election was unclean."),
    "KD-COPY-BYTES": _E("copies with other bytes", NOT_NOTICED,
        _they("get one or the other: it depends on the leader."),
        "One copy was changed outside of Kafka, or bytes changed that the CRC does not cover."),
    "KD-COPY-KEYS": _E("compacted copies that differ", NOT_NOTICED,
        _they("get another latest record of a key: it depends on the leader."),
        "One copy was changed outside of Kafka, or its cleaner lost records."),
    "KD-COPY-MISSING": _E("copy with missing records",
        _broker("does not notice: a leader never sends offsets again that are missing inside a follower's log."),
        _they("miss these records if this copy leads."), OPERATOR),
    "KD-COPY-ABSENT": _E("in-sync copy is gone",
        _broker("makes an empty directory at its start. If it leads, all other brokers cut their copies to it."),
        _they("find an empty partition if this broker leads."), "A disk was replaced or wiped."),
    "KD-GROUP-BEYOND": _E("commit above the log end",
        _broker("keeps the commit, and answers a fetch there with OFFSET_OUT_OF_RANGE."),
        _they("continue where auto.offset.reset says: at the start, at the end, or they stop."),
        "The log lost its last records, or its topic was deleted and created again."),
    "KD-READ": _E("unreadable file", _broker("takes the log directory offline when it reads here."),
        _they("wait for another leader."), "Permissions, or a disk that fails."),
}
"""Code → what there is to say of it."""
# fmt: on
