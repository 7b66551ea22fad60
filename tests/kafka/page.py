"""docs/kafka.md: what was compared with each release of Kafka, from the counts of the last run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.kafka.jars import RELEASES
from tests.kafka.tally import Column

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "kafka.md"

Counts = Mapping[str, Mapping[str, tuple[int, int]]]
"""Release → column → comparisons made, and those of them that differed."""

_HEAD = """\
# Kafka's releases

Which releases of Kafka kdump is compared with, and how often. `./dev kafka` brings each release's official jars, runs
real brokers and clients on rich data (transactions, all codecs, compaction, retention, classic, consumer, share and
streams groups), stops some brokers in order and kills others under load, and compares. It writes this page with
`--write-docs`; the numbers are comparisons, each part of the job as it was run last.

"""

_FOOT = """
* **read**: `ls`, `dump`, `lookup`, `groups`, `txns` and `metadata` say what the broker, its coordinators and controller
  and its consumers say, of directories of a stopped, a killed and a running broker.
* **verify**: `verify --deep` has no error and no warning for what brokers leave, and finds what was damaged beside a
  broker under load.
* **forecast**: `startup` tells what the broker then does: where logs begin and end, which files are left and how large,
  what fails; of sound directories and of randomly damaged ones; and whether the brokers of the other releases start.
* **dump**: `dump-log` prints what that release's own kafka-dump-log prints, byte for byte, with the same exit code,
  for every file in every mode, right and wrong options, and randomly damaged files; of an exception on stderr all but
  the frames of its stack.
* **write**: `repair` leaves alone what is sound; what `repair`, `append`, `roll` and `compact` change is read by that
  release's broker and clients as was said; `compact` leaves the bytes of logs and indexes that the release's cleaner
  leaves, and `append` and `rebuild-index` those of indexes that its broker builds.

Java's clients, confluent-kafka (librdkafka), kafka-python and aiokafka write and read, with every codec that they have.

The job needs a JDK (17 or later) and, for the first run, Maven. On a machine without them it says what it did not run,
and ends with exit code 3. Jars, which are checked against locked SHA-256 sums, are kept below `~/.cache/kdump/kafka`
(`KDUMP_KAFKA_JARS` names another folder), and so are the data sets, under a digest of all that makes them, and the
classes that the JVMs of a release share. Ports are locked, so that several jobs run on one machine.

    ./dev kafka                                    # all releases, as many at a time as there are processors, at most 3
    ./dev kafka tests/kafka/test_reading.py        # one file
    ./dev kafka --release 4.3.1 --rounds 260       # a campaign of random damages
    ./dev kafka --release 4.3.1 --rounds 100 tests/kafka/test_loading.py  # 400 damaged partitions, no broker
    ./dev kafka --release 4.3.1 --seconds 600 tests/kafka/test_soak.py
    ./dev kafka --release 4.3.1 tests/kafka/test_disks.py  # six brokers' disks, any of them; only by name
    KDUMP_KAFKA_DATA_SEED=7 ./dev kafka            # the same with more data, other settings and features, by chance
    ./dev kafka --write-docs
"""


def written(counts: Counts) -> str:
    """The page."""
    return _HEAD + "".join(line + "\n" for line in _table(counts)) + _FOOT


def _table(counts: Counts) -> list[str]:
    head = "| Kafka | " + " | ".join(Column) + " |"
    rows = ([release, *(_cell(counts, release, column) for column in Column)] for release in RELEASES)
    return [head, "|---" * (len(Column) + 1) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def _cell(counts: Counts, release: str, column: Column) -> str:
    made, differed = counts.get(release, {}).get(column, (0, 0))
    if not made:
        return "not tested"
    return f"{made:,}" if not differed else f"{made - differed:,} of {made:,}"
