"""What differs from one release of Kafka to the next, as far as a log directory and Kafka's own tools show it.

This is the one place that knows a release by its number; everything else asks a release for one of the `BEHAVIOURS`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from kdump.release_tables import FEATURES, METADATA_LEVELS, METADATA_VERSIONS


class KafkaRelease(Enum):
    """A minor release, and the patch releases of it that behave differently; the later ones behave as the last of them.

    Of a minor release without a patch number its first one is meant.
    """

    V3_9 = "3.9"
    V3_9_1 = "3.9.1"
    V4_0 = "4.0"
    V4_0_1 = "4.0.1"
    V4_1 = "4.1"
    V4_2 = "4.2"
    V4_2_2 = "4.2.2"
    V4_3 = "4.3"
    V4_4 = "4.4"
    V4_5 = "4.5"

    @classmethod
    def parse(cls, text: str) -> KafkaRelease:
        """Return the release of a version such as 4.1, 4.1.2 or 4.3.0-rc1.

        Raises ValueError for anything else, and for a release whose behaviour is not known.
        """
        numbers = re.fullmatch(_VERSION, text.strip())
        if numbers is None:
            raise ValueError(f"{text!r} is not a release of Kafka; write it as {NEWEST.value} or {NEWEST.value}.1")
        patch = int(numbers[2] or 0)
        known = [release for release in cls if release.minor == numbers[1] and release.patch <= patch]
        if known:
            return known[-1]
        raise ValueError(f"Kafka {numbers[1]} is not known: {_OLDEST.value} to {_LAST.value} are")

    @property
    def minor(self) -> str:
        """The minor release that it is one of, as 4.0."""
        return ".".join(self.value.split(".")[:2])

    @property
    def patch(self) -> int:
        """The number of the patch release from which on it behaves so."""
        return int(self.value.removeprefix(self.minor).removeprefix(".") or 0)

    def __lt__(self, other: KafkaRelease) -> bool:
        return _ORDER[self] < _ORDER[other]

    def __le__(self, other: KafkaRelease) -> bool:
        return _ORDER[self] <= _ORDER[other]

    def has(self, behaviour: Behaviour) -> bool:
        """Return whether the release behaves so."""
        is_between = behaviour.since <= self and (behaviour.until is None or self < behaviour.until)
        return is_between or self in behaviour.backports


_VERSION = r"(\d+\.\d+)(?:\.(\d{1,4}))?(?:-[A-Za-z0-9]+)?"
_ORDER = {release: number for number, release in enumerate(KafkaRelease)}
_OLDEST, *_, _LAST = KafkaRelease

NEWEST = KafkaRelease.V4_4
"""The newest release that is out and tested. Of the later ones kdump knows what their branches show."""


class NewerThanKnown(NamedTuple):
    """A level of metadata.version above all that are known: that of a release newer than this kdump, no damage."""

    level: int


UNSTABLE_FEATURES = "unstable.feature.versions.enable"
"""The server's setting with which a node supports levels of features that its release calls unstable."""
METADATA_VERSION = "metadata.version"
"""The feature whose level says what a cluster may write (Kafka: MetadataVersion)."""
KRAFT_VERSION = "kraft.version"
"""The feature whose level says how a controller quorum is kept (Kafka: KRaftVersion); a control record has it."""
TRANSACTION_VERSION = "transaction.version"
"""The feature whose level says how transactions end (Kafka: TransactionVersion, KIP-890)."""
NEWEST_METADATA_VERSION = len(METADATA_VERSIONS)


def metadata_version_name(level: int) -> str | None:
    """Return Kafka's name of a level of metadata.version, as in 3.7-IV4; None for one that is not known."""
    return METADATA_VERSIONS[level - 1] if 1 <= level <= NEWEST_METADATA_VERSION else None


def metadata_version_level(name: str) -> int:
    """Return the level of metadata.version that Kafka names so, as 3.7-IV4. Raises ValueError for an unknown one."""
    return METADATA_VERSIONS.index(name) + 1


def newest_metadata_version(release: KafkaRelease, *, with_unstable: bool = False) -> int:
    """Return the highest level of metadata.version that a release supports, which new clusters get.

    `with_unstable`: as with unstable.feature.versions.enable, without which a node ends where it reads a higher level.
    """
    levels = METADATA_LEVELS.get(release.minor, (NEWEST_METADATA_VERSION, NEWEST_METADATA_VERSION))
    return levels[with_unstable]


def feature_levels(release: KafkaRelease) -> dict[str, int]:
    """Return the highest level of each feature, but metadata.version and kraft.version, that a release supports."""
    levels = FEATURES.get(release.minor, FEATURES[NEWEST.minor])
    return {name: level for name, level in levels.items() if name != KRAFT_VERSION}


def of_metadata_version(level: int) -> KafkaRelease | NewerThanKnown | None:
    """Return the release that a level of metadata.version belongs to, the last of its patches; None before 3.9."""
    if level > NEWEST_METADATA_VERSION:
        return NewerThanKnown(level)
    name = metadata_version_name(level)
    release = None if name is None else name.partition("-")[0]
    return max((known for known in KafkaRelease if known.minor == release), default=None)


def release_name(level: int) -> str:
    """Return the release that a level of metadata.version belongs to, for people: `4.3`, and `3.7` as well."""
    name = metadata_version_name(level)
    return f"newer than {_LAST.value}" if name is None else name.partition("-")[0]


class Behaviour(NamedTuple):
    """Something that brokers or tools do from release `since` on and no longer from `until` (None: to this day).

    `source` says where it comes from: an issue, a KIP, or the class that does it. `asked_by` are the parts of kdump
    that ask for it; empty for what none of them imitates. `backports` are older releases whose later patches have it.
    """

    since: KafkaRelease
    until: KafkaRelease | None
    what: str
    source: str
    asked_by: tuple[str, ...]
    backports: tuple[KafkaRelease, ...] = ()


def _since(release: str, what: str, source: str, *asked_by: str) -> Behaviour:
    first, *others = map(KafkaRelease, release.split(", "))
    return Behaviour(first, None, what, source, asked_by, tuple(others))


# fmt: off
ANY_VOTERS = _since("3.9.1", "KRaft readers accept a VotersRecord that changes any number of voters", "KIP-853")
NEEDS_METADATA_3_3 = _since(
    "4.0", "a broker does not run with a metadata.version before 3.3-IV3", "MetadataVersion", "startup"
)
CONVERTS_LEGACY = _since("4.0", "the cleaner rewrites v0 and v1 batches as v2", "KIP-724, LogCleaner", "compact")
GENERATED_SNAPSHOT_SCHEMA = _since(
    "4.0",
    "kafka-dump-log has other words for a producer snapshot that ends early",
    "ProducerStateManager.readSnapshot", "dump-log",
)
SHARE_STATE_DECODER = _since("4.0", "kafka-dump-log has --share-group-state-decoder", "KIP-932", "dump-log")
NO_OLD_DECODERS = _since(
    "4.0",
    "kafka-dump-log no longer takes the decoders of kafka.serializer, which 3.9 calls deprecated",
    "DumpLogSegments", "dump-log",
)
MARKER_EPOCH_ABOVE_DATA = _since(
    "4.0",
    "with transaction.version 2, the default of new clusters, an end marker has the producer epoch after that of the"
    " transaction's records",
    "KIP-890",
)
INDEX_PER_BATCH = _since(
    "4.1, 4.0.1, 3.9.1",
    "an append, also a follower's, the cleaner's and that of a split, makes index entries batch by batch, not one for"
    " all its batches",
    "LogSegment.append", "append", "compact", "fixture build", "repair", "startup",
)
OFFSET_SEARCH_BY_BASE = _since(
    "4.1",
    "the search for an offset in a log compares the batches' first offsets, and their last ones only where it has to",
    "FileRecords.searchForOffsetFromPosition", "lookup", "startup",
)
OFFSET_SEARCH_READS_FOUND = _since(
    "4.1, 4.0.1",
    "the search for an offset in a log reads the first offset of the batch that it finds, which is inside a v0 or v1"
    " wrapper: one that cannot be decompressed ends the start (seen with 4.0.2)",
    "FileRecords.searchForOffsetWithSize", "startup",
)
LARGE_DEFAULT_SEGMENTS = _since(
    "4.0",
    "brokers do not start with a log.segment.bytes below 1 MiB in their server.properties; a topic's own may still be"
    " less",
    "KIP-1030, LogConfig", "startup",
)
LARGE_SEGMENTS = _since(
    "4.1",
    "brokers end at their start where a topic's segment.bytes is below 1 MiB",
    "KIP-1030, LogConfig", "fixture build", "resurrect", "startup",
)
LEADER_CHANGE_JSON = _since(
    "4.1", "kafka-dump-log prints a leader change's fields as JSON", "DumpLogSegments", "dump-log"
)
TRANSACTION_LOG_JSON = _since(
    "4.1", "kafka-dump-log --transaction-log-decoder prints JSON", "DumpLogSegments", "dump-log"
)
COORDINATOR_API_KEYS = _since(
    "4.1",
    "the number in front of a coordinator record's key is an apiKey; kafka-dump-log refuses versions of values that it"
    " does not know, and has the same texts for all coordinators",
    "CoordinatorRecordSerde", "dump-log",
)
NEW_LAYOUTS = _since(
    "4.1",
    "share group state, the metadata of share groups and the oldest offset commits have other layouts under the same"
    " version numbers",
    "KIP-932", "dump-log",
)
TXN_INDEX_EMPTY = _since(
    "4.0.1",
    "kafka-dump-log --remote-log-metadata-decoder prints txnIdxEmpty (4.0.0 too, but not its previews)",
    "RemoteLogSegmentMetadata", "dump-log",
)
SHORT_MARKERS_END = _since(
    "4.1",
    "an end marker whose value is too short is a BufferUnderflowException, which no recovery takes for damage, not an"
    " InvalidRecordException",
    "EndTransactionMarker", "dump-log", "startup",
)
SECOND_END_MARKER = _since(
    "4.2", "with transaction.version 2 a second end marker of a transaction may be in the log", "KIP-890"
)
CONTROL_KEY_WORDS = _since(
    "4.3",
    "a control record's key that is too short is called `control record key`, before `end control record key`",
    "ControlRecordType", "dump-log",
)
DUMP_IN_JAVA = _since(
    "4.3",
    "kafka-dump-log is rewritten: other orders on stderr, `-1 is followed by N` for a first offset above 0, no"
    " exception for a name without a dot, a bar in front of every payload",
    "org.apache.kafka.tools.DumpLogSegments", "dump-log",
)
CORDONED_DIRECTORIES = _since(
    "4.3",
    "brokers register cordoned log directories: RegisterBrokerRecord v4, BrokerRegistrationChangeRecord v3",
    "KIP-1066",
)
TRANSACTION_STATUS_NAMES = _since(
    "4.4",
    "kafka-dump-log --transaction-log-decoder prints the transaction's status by name",
    "DumpLogSegments", "dump-log",
)
LIMITED_ARRAYS = _since(
    "4.4, 4.2.2",
    "the readers that Kafka generates take arrays of up to 1,000,000 elements and up to 10,000 tagged fields: a start"
    " deletes a producer snapshot of more producers, and makes it again with those that the log still shows (seen)",
    "MessageUtil", "dump-log", "startup",
)
MAX_DECOMPRESSED_MESSAGE_BYTES = _since(
    "4.4, 4.2.2",
    "topics and brokers have max.decompressed.message.bytes: the cleaner leaves a partition with a larger record in a"
    " compressed batch (seen)",
    "LogConfig, Cleaner", "compact",
)
TXN_VERSION_INT16 = _since(
    "4.4",
    "the version of a .txnindex entry is read as int16, and any but 0 ends the broker; before only the first byte"
    " counted, and only if it was above 0 (seen)",
    "AbortedTxn, TransactionIndex", "dump-log", "startup", "verify",
)
LAST_BATCH_BELOW_HIGH_WATERMARK = _since(
    "4.4",
    "the cleaner keeps an emptied last batch only where its next offset is the high watermark, not where it is the end"
    " of the round",
    "Cleaner", "compact",
)
ZERO_CHECKPOINT = _since(
    "4.4",
    "kafka-storage format writes 00000000000000000000-0000000000.checkpoint in place of bootstrap.checkpoint",
    "Formatter",
)
CLEANER_SPLITS_OUTPUT = _since("4.5", "the cleaner may write one group of segments as several", "Cleaner")

# fmt: on

BEHAVIOURS = {name: found for name, found in list(globals().items()) if isinstance(found, Behaviour)}
"""All of them, by name."""
