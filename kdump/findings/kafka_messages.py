"""What Kafka prints about log directories, and what each message means: from a line of server.log to findings.

The templates are those of Kafka's classes (LogLoader, LogSegment, LogManager, UnifiedLog, CheckpointFile, the consumer
and others, releases 3.9 to 4.4); `{NAME}` stands for what differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

MAX_LINE = 1 << 14
"""Characters of a line that are looked at."""


@dataclass(frozen=True)
class KafkaMessage:
    """A message of Kafka's.

    `codes` are the findings that it is about, the likeliest first. `means` says what has happened, `do` what to do now;
    without `do` it is routine.
    """

    template: str
    codes: tuple[str, ...]
    means: str
    do: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The message with names for what differs."""
        return re.sub(r"\{([A-Z]+)\}", r"\1", self.template)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What finds the message in a line."""
        found = re.sub(r"\\\{([A-Z]+)\\\}", r"(?P<\1>.+?)", re.escape(self.template))
        ends = r"(?=$|[\s,;]|\. |\.$)" if self.template.endswith("}") else ""
        return re.compile(found + ends)


class FoundMessage(NamedTuple):
    """A message that was found: by name what stood in the places that differ."""

    message: KafkaMessage
    values: dict[str, str]


_CUT = (
    "Compare with the leader: kdump replicas PARTITION_DIRECTORY OTHER/PARTITION",
    "Do not delete another replica before that: its copy may be the last one.",
)
_LOOK_FIRST = ("kdump doctor LOG_DIRECTORY",)
_DISK = ("Look at the disk (dmesg, smartctl) first.", "Then: kdump doctor LOG_DIRECTORY")
_ALL_DIRECTORIES = ("kdump doctor LOG_DIRECTORY... with all directories of log.dirs",)
_OFFLINE = "A log directory is offline: the broker serves none of its partitions. Its other disks work."
_REBUILD = ("kdump rebuild-index PARTITION_DIRECTORY",)
_M = KafkaMessage
# fmt: off
MESSAGES: tuple[KafkaMessage, ...] = (
    # what recovery finds
    _M("Found invalid messages in log segment {FILE} at byte offset {POSITION}", ("KD-LOG-CRC", "KD-LOG-SIZE"),
        "A broker found damage while it recovered. It has already cut the log there: what followed is no longer on"
        " this disk.", _CUT),
    _M("Corruption found in segment {BASE}, truncating to offset {OFFSET}",
        ("KD-LOG-CRC", "KD-LOG-SIZE", "KD-LOG-BEYOND"),
        "A broker cut the log and deleted the later segments: what followed is no longer on this disk.", _CUT),
    _M("Found invalid offset during recovery. Deleting the corrupt segment and creating an empty one with starting"
        " offset {OFFSET}", ("KD-LOG-ORDER",),
        "A broker emptied a segment because its offsets go back: its records are no longer on this disk.", _CUT),
    _M("Deleting all segments because logEndOffset ({OFFSET}) is smaller than logStartOffset {START}",
        ("KD-CKPT-LOG-START",), "A broker deleted all segments of the partition: its checkpoint was ahead of its log.",
        _CUT),
    _M("Found an orphaned index file {FILE}, with no corresponding log file", ("KD-IDX-ORPHAN",),
        "The broker deleted an index file without a log."),
    _M("Could not find offset index file corresponding to log file {FILE}, recovering segment", ("KD-IDX-MISSING",),
        "The broker rebuilds a missing index. It checks the batches of the segment on the way."),
    _M("Found a corrupted index file corresponding to log file {FILE} due to {TEXT}, recovering segment",
        ("KD-IDX-LENGTH", "KD-TIDX-LENGTH", "KD-TXN-BASE", "KD-IDX-ZEROS"),
        "The broker rebuilds an index that fails its check. It checks the batches of the segment on the way."),
    _M("Corrupt index found, index file {FILE} has non-zero size but the last offset is {OFFSET}",
        ("KD-IDX-ZEROS", "KD-IDX-OFFSET"), "The last entry of an offset index is below the base offset of its segment.",
        _REBUILD),
    _M("Corrupt time index found, time index file ({FILE}) has non-zero size but the last timestamp is {TIME}",
        ("KD-TIDX-ZEROS", "KD-TIDX-ORDER"), "The last entry of a time index is before its first one.", _REBUILD),
    _M("Index file {FILE} is corrupt, found {SIZE} bytes which is neither positive nor a multiple of 8",
        ("KD-IDX-LENGTH",), "An offset index ends inside an entry.", _REBUILD),
    _M("Time index file {FILE} is corrupt, found {SIZE} bytes which is neither positive nor a multiple of 12",
        ("KD-TIDX-LENGTH",), "A time index ends inside an entry.", _REBUILD),
    _M("Unexpected aborted transaction version {VERSION} in transaction index {FILE}", ("KD-TXN-VERSION",),
        "A transaction index has an entry that no release writes.", _REBUILD),
    _M("Last offset of aborted transaction {TEXT} in index {FILE} is less than start offset {OFFSET}", ("KD-TXN-BASE",),
        "A transaction index has an entry of another segment. The broker recovers the segment."),
    _M("Failed to load producer snapshot from '{FILE}'", ("KD-SNAP-CORRUPT",),
        "The broker deleted a damaged producer snapshot and rebuilds the producers from the log."),
    _M("Tried to read a collection of size {N}, which exceeds the maximum allowed size of {M}",
        ("KD-SNAP-LARGE", "KD-SNAP-CORRUPT", "KD-VALUE-UNDECODABLE"),
        "A file or record has more elements than the broker reads, or is damaged. The broker deletes a producer"
        " snapshot of that size and knows only the producers that the log still shows.", _LOOK_FIRST),
    _M("Tried to read {N} tagged fields, ", ("KD-VALUE-UNDECODABLE", "KD-SNAP-CORRUPT"),
        "A file or record is damaged, or a newer release wrote it: its number of tagged fields is impossible.",
        _LOOK_FIRST),
    _M("Invalid record size: {N} exceeds the configured maximum record size of {M}", (),
        "A record in a compressed batch is larger than max.decompressed.message.bytes: the cleaner does not compact the"
        " partition any more, and searches by time fail.",
        ("Raise it: kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic TOPIC --add-config"
         " max.decompressed.message.bytes=BYTES",)),
    _M("Varint is too long, the most significant bit in the {TEXT} byte is set", ("KD-BATCH-RECORDS",),
        "A record in a batch is damaged: its size cannot be read.", _LOOK_FIRST),
    _M("Inconsistent snapshot state: there must be a snapshot at an offset", ("KD-KRAFT-SNAPSHOT",),
        "The controller does not start: its metadata log begins above offset 0, and no snapshot has what came before.",
        ("Copy the snapshots of another controller's metadata directory while this one is stopped.", *_LOOK_FIRST)),
    _M("The log for {TP} is already closed", (),
        "Something used a log that was closed because its log directory is offline. An earlier line has the reason.",
        _ALL_DIRECTORIES),
    _M("There was an error in one of the threads during logs loading", (),
        "The broker does not start: a log could not be loaded. The lines around this one have the exception.",
        _ALL_DIRECTORIES),
    _M("Snapshot is corrupt (CRC is no longer valid). Stored crc: {N}. Computed crc: {M}", ("KD-SNAP-CORRUPT",),
        "A producer snapshot fails its CRC. The broker rebuilds the producers from the log."),
    _M("Caught segment overflow error", ("KD-LOG-OVERFLOW",),
        "The broker splits a segment whose offsets are too far from its base offset."),
    _M("Detected offset overflow at offset {OFFSET} in segment {FILE}", ("KD-LOG-OVERFLOW", "KD-LOG-OFFSET"),
        "A segment has offsets that are too far from its base offset.", _LOOK_FIRST),
    _M("Deleting stray temporary file {FILE}", ("KD-FILE-TMP", "KD-FILE-CLEANED"),
        "The broker deleted a file that it had not finished."),
    _M("Found log file {FILE} from interrupted swap operation", ("KD-FILE-SWAP",),
        "The broker finishes a replacement of segments that was interrupted."),
    # what does not start
    _M("Found directory {FILE}, '{NAME}' is not in the form of topic-partition", ("KD-DIR-NAME",),
        "The broker does not start: a directory in the log directory is no partition.",
        ("Move the directory out of the log directory and keep it. Loses nothing.",)),
    _M("Duplicate log directories for {TP} are found in both {FILE} and {OTHER}.", ("KD-DIR-DUPLICATE",),
        "The broker does not start: a partition is in two of its log directories.",
        ("kdump ls BOTH DIRECTORIES shows what each has. Move the one with less away and keep it.",)),
    _M("Failed to acquire lock on file .lock in {FILE}.", (),
        "Another broker, or kdump, is using this log directory. Nothing is damaged.",
        ("Find the process that has the .lock file open, and stop one of the two.",)),
    _M("Invalid cluster.id in: {FILE}. Expected {ID}, but read {OTHER}", ("KD-META-PROPERTIES",),
        "The broker does not start: the disk is of another cluster.",
        ("Do not edit meta.properties before you know which cluster the data is of: kdump ls LOG_DIRECTORY",)),
    _M("Stored node id {N} doesn't match previous node id {M} in {FILE}", ("KD-META-NODES",),
        "The broker does not start: its disks are of several nodes.",
        ("kdump ls LOG_DIRECTORY... shows each one's node.",)),
    _M("No readable meta.properties files found", ("KD-META-PROPERTIES",),
        "The broker does not start: meta.properties is missing or damaged in all log directories.", _ALL_DIRECTORIES),
    _M("Invalid reserved directory ID {ID} found in {FILE}", ("KD-META-PROPERTIES",),
        "The broker does not start: directory.id in meta.properties is one that Kafka reserves.", _LOOK_FIRST),
    _M("Duplicate directory ID {ID} found", ("KD-META-PROPERTIES",),
        "The broker does not start: a log directory was copied with its id.",
        ("Give one of the copies another directory.id, or take it out of log.dirs.",)),
    _M("Attempted to complete transaction {TEXT} on partition {TP} which was not started", (),
        "The broker does not start: a transaction marker does not fit the producer state.",
        ("kdump startup LOG_DIRECTORY names the partition and the batch.",)),
    _M("Found invalid record count {N} in magic v2 batch", ("KD-BATCH-COUNT", "KD-BATCH-RECORDS"),
        "A batch has a record count that its records contradict.", _LOOK_FIRST),
    _M("is larger than the maximum allowed segment size of 2147483647", ("KD-LOG-LARGE",),
        "The broker does not start: a .log file is too large to be a segment.", _LOOK_FIRST),
    _M("There was an error in one of the threads during logs loading: {TEXT}", (),
        "The broker does not start. The lines before this one name the partition.", _ALL_DIRECTORIES),
    _M("Shutdown broker because the metadata log dir {FILE} has failed", (),
        "The broker ended because the disk with __cluster_metadata-0 failed.", _DISK),
    _M("Shutdown broker because all log dirs in {FILE} have failed", (),
        "The broker ended because no log directory works.", _DISK),
    _M("Encountered I/O error in metadata log directory {FILE}. Cannot continue", ("KD-META-PROPERTIES",),
        "The broker does not start: the disk with the cluster metadata cannot be read.", _DISK),
    # what goes offline, or is set aside
    _M("Stopping serving logs in dir {FILE}", (), _OFFLINE, _DISK),
    _M("Stopping serving replicas in dir {FILE}", (), _OFFLINE, _DISK),
    _M("Stopped serving replicas in dir {FILE}", (), _OFFLINE, _DISK),
    _M("because they are in the failed log directory {FILE}.", (), _OFFLINE, _DISK),
    _M("Stopping cleaning logs in dir {FILE}", (), _OFFLINE, _DISK),
    _M("are offline due to failure on log directory {FILE}", (), _OFFLINE, _DISK),
    _M("bring up new local leader {TP} with topic id {ID} because it resides in an offline log directory", (),
        "The broker cannot lead the partition: its log directory is offline. Another replica leads, if one is in sync.",
        _ALL_DIRECTORIES),
    _M("Unable to start fetching {TP} with topic I", (),
        "The broker cannot load the partition, and does not follow its leader. The end of the line has the reason.",
        _ALL_DIRECTORIES),
    _M("in broker {N} marked offline, remaining directories", (),
        "The controller knows that log directories of a broker are offline. Other replicas lead their partitions.",
        ("On that broker: kdump doctor LOG_DIRECTORY... with all directories of log.dirs",)),
    _M("Expected partition {TP} with topic id {ID} to exist, but it was missing. Creating...", (),
        "The partition directory was missing. The broker created an empty one, and follows its leader.",
        ("Do not delete another replica now: its copy may be the last one.",
         "Find where the directory went: kdump ls LOG_DIRECTORY... of all disks of this broker.")),
    _M("Attempted to load transaction metadata from {TP}, but found no log", (),
        "The transaction coordinator found no log: the partition is on a log directory that is offline or empty.",
        _ALL_DIRECTORIES),
    _M("Error starting LogManager", (),
        "The broker does not start. The lines after this one have the exception.", _ALL_DIRECTORIES),
    _M("Error while reading checkpoint file {FILE}", ("KD-CKPT-FORMAT", "KD-EPOCH-FORMAT", "KD-READ"),
        "A checkpoint file cannot be read: the broker takes the log directory offline.", _LOOK_FIRST),
    _M("Error while reading partition metadata file {FILE}", ("KD-META-PARTITION", "KD-READ"),
        "partition.metadata cannot be read: the broker takes the log directory offline.", _LOOK_FIRST),
    _M("Error occurred while reading {NAME} file of directory {FILE}, resetting the", ("KD-CKPT-FORMAT",),
        "A checkpoint file cannot be read. The broker continues without it, and checks or reads more than necessary.",
        _LOOK_FIRST),
    _M("is already offline due to a previous IO exception", (),
        "The log directory went offline before this line. An earlier line has the reason.", _ALL_DIRECTORIES),
    _M("Malformed line in checkpoint file [{FILE}]: {TEXT}", ("KD-CKPT-FORMAT", "KD-EPOCH-FORMAT"),
        "A checkpoint file cannot be parsed: the broker takes the log directory offline.", _LOOK_FIRST),
    _M("entries in checkpoint file [{FILE}], but found only", ("KD-CKPT-FORMAT", "KD-EPOCH-FORMAT"),
        "A checkpoint file is cut: the broker takes the log directory offline.", _LOOK_FIRST),
    _M("in checkpoint file at: {FILE}", ("KD-CKPT-FORMAT", "KD-EPOCH-FORMAT"),
        "A checkpoint file has a version that Kafka does not know: the broker takes the log directory offline.",
        _LOOK_FIRST),
    _M("Malformed line in partition metadata file [{FILE}]", ("KD-META-PARTITION",),
        "partition.metadata cannot be parsed: the broker takes the log directory offline.", _LOOK_FIRST),
    _M("Invalid topic ID in partition metadata file ({FILE})", ("KD-META-PARTITION",),
        "partition.metadata has no topic id: the broker takes the log directory offline.", _LOOK_FIRST),
    _M("Log in {FILE} marked stray and renamed to {OTHER}", ("KD-DIR-UNASSIGNED", "KD-META-TOPIC-CLUSTER"),
        "The broker set a replica aside that the cluster metadata does not have on it. Its records are kept.",
        ("Keep the directory until you know that nobody needs its records.",)),
    _M("does not have a topic ID, which is not allowed when running in KRaft mode", ("KD-META-PARTITION-MISSING",),
        "A replica without partition.metadata: the broker sets it aside.",
        ("Copy partition.metadata from another partition of the topic while the broker is stopped.",)),
    _M("Error while reading the Quorum status from the file {FILE}", ("KD-KRAFT-STATE",),
        "The node does not start: quorum-state cannot be read.", _LOOK_FIRST),
    _M("No space left on device", (), "The disk is full. The broker takes the log directory offline.",
        ("Make room outside of Kafka's files. Delete no segment by hand.",
         "kdump retain LOG_DIRECTORY shows what retention would free.")),
    _M("Input/output error", ("KD-READ",), "The disk fails.", _DISK),
    _M("Read-only file system", (), "The system made the file system read-only, often after an error of the disk.",
        _DISK),
    _M("Too many open files", (), "The broker has no file descriptors left. Nothing is damaged by this.",
        ("Raise the limit of open files (nofile) of the broker.",)),
    _M("java.io.IOException: Map failed", (), "The system refused a memory map. Nothing is damaged by this.",
        ("Raise vm.max_map_count.",)),
    # what readers and the cleaner find
    _M("Record is corrupt (stored crc = {N}, computed crc = {M})", ("KD-LOG-CRC",), "A batch fails its CRC.",
        _LOOK_FIRST),
    _M("Record batch for partition {TP} at offset {OFFSET} is invalid, cause: {TEXT}", ("KD-LOG-CRC",),
        "A consumer stopped at a damaged batch.", _LOOK_FIRST),
    _M("Encountered corrupt message when fetching offset {OFFSET} for topic-partition {TP}",
        ("KD-LOG-CRC", "KD-LOG-SIZE"),
        "The broker found damage while it served a fetch.", _LOOK_FIRST),
    _M("Found record size {SIZE} smaller than minimum record overhead ({MIN}) in file {FILE}.",
        ("KD-LOG-SIZE", "KD-LOG-ZEROS"), "The size field of a batch is damaged, or zeros follow.", _LOOK_FIRST),
    _M("Record batch is corrupt (the size {SIZE} is smaller than the minimum allowed overhead 61)", ("KD-LOG-SIZE",),
        "The size field of a batch is damaged.", _LOOK_FIRST),
    _M("Incorrect declared batch size, ", ("KD-BATCH-RECORDS", "KD-BATCH-COUNT"),
        "The records of a batch contradict its header.", _LOOK_FIRST),
    _M("Failed to decompress record stream", ("KD-BATCH-CODEC",), "The payload of a batch cannot be decompressed.",
        _LOOK_FIRST),
    _M("Unknown compression type id: {N}", ("KD-BATCH-CODEC",), "A batch names a codec that Kafka does not have.",
        _LOOK_FIRST),
    _M("Unexpected exception thrown when cleaning log {TEXT}. Marking its partition ({TP}) as uncleanable",
        ("KD-BATCH-CODEC", "KD-BATCH-RECORDS", "KD-LOG-MAGIC"),
        "The cleaner failed and leaves the partition alone from now on: it grows.", _LOOK_FIRST),
    _M("The last checkpoint dirty offset for partition {TP} is {OFFSET}, which is larger than the log end offset {END}",
        ("KD-CKPT-CLEANER",), "The log was cut after a cleaning. The cleaner begins again."),
    _M("contains future timestamp(s), making it ineligible to be deleted", ("KD-TIME-FUTURE", "KD-TIME-UNIT"),
        "Retention by time keeps a segment because of its timestamps.", ("kdump retain PARTITION_DIRECTORY",)),
    _M("Non-monotonic update of high watermark from ", ("KD-CKPT-HIGH-WATERMARK",),
        "The high watermark went back: the log lacks offsets that were committed, or its leader changed.", _CUT),
    _M("Error loading metadata log record from offset {OFFSET}", ("KD-META-CLUSTER", "KD-VALUE-UNDECODABLE"),
        "The node ended because it cannot apply a record of the cluster metadata.",
        ("kdump metadata LOG_DIRECTORY",)),
    _M("Out of order sequence number for producer {ID}", ("KD-PRODUCER-SEQUENCE",),
        "The broker refused a batch: the one before it is not in its log.", ("kdump txns PARTITION_DIRECTORY --all",)),
    # routine
    _M("since no clean shutdown file was found", (),
        "The broker was not shut down cleanly. It checks its logs from the recovery points."),
    _M("since clean shutdown file was found", (), "The broker was shut down cleanly. It checks no batches."),
    _M("Recovering unflushed segment {BASE}.", (), "The broker checks a segment that may not be on the disk entirely."),
    _M("Resetting first dirty offset of {TP} to log start offset", ("KD-CKPT-CLEANER",),
        "The cleaner's offset is outside the log. The cleaner begins at the log start offset."),
    _M("Epoch from quorum store file ({FILE}) is {N}, which is smaller than last written epoch", (),
        "quorum-state is missing or older than the metadata log. The node uses the epoch of the log."),
    _M("Truncating to {OFFSET} has no effect as the largest offset in the log is", (), "Nothing was cut."),
    _M("below high watermark", (),
        "The replica was cut below its high watermark: committed records may be lost.", _CUT),
)
# fmt: on


def messages_in(line: str) -> Iterator[FoundMessage]:
    """Yield the messages of Kafka's that a line has, in their order in the catalogue."""
    line = line[:MAX_LINE]
    for message in MESSAGES:
        if found := message.pattern.search(line):
            yield FoundMessage(message, found.groupdict())


def said_of(code: str) -> list[str]:
    """Return the messages that Kafka prints about findings of a code."""
    return [message.text for message in MESSAGES if code in message.codes]


_FILE_ENDS = ("-checkpoint", "partition.metadata", "quorum-state", "meta.properties")
"""How files end that are no partition's segments: a line that names one is about its directory."""
_PARTITION = re.compile(r"\[(?:LogLoader|UnifiedLog|LocalLog) partition=(?P<tp>[^,\]]+), dir=(?P<dir>[^\]]+)\]")


def partition_in(said: FoundMessage, line: str) -> str | None:
    """Return the partition directory that a line is about, or its name alone; None where the line has neither."""
    if found := _PARTITION.search(line[:MAX_LINE]):
        return f"{found['dir'].rstrip('/')}/{found['tp']}"
    path = said.values.get("FILE")
    if path and "/" in path:
        path = re.sub(r"\.(?:log|index|timeindex|txnindex|snapshot)$", "", path)
        folder, _, name = path.rpartition("/")
        return folder if name.isdigit() or name.endswith(_FILE_ENDS) else path
    return said.values.get("TP")
