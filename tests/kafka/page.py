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
# Comparisons with Kafka's releases

This page shows how often kdump was compared with each release of Kafka. `./dev kafka` gets each release's official \
jars and
runs real brokers and clients. Their data has transactions, all codecs, compaction, retention, and classic, consumer, \
share
and streams groups. Some brokers are stopped cleanly, others are killed under load. Then the job compares.

A cell has the number of comparisons without a difference, from the last run of each part. If some differed, the cell \
says
`N of M`. `./dev kafka --write-docs` writes this page.

"""

_FOOT = """
| column | what is compared |
|---|---|
| read | `ls`, `dump`, `lookup`, `groups`, `txns` and `metadata`, with the answers of the broker, its coordinators, \
its controller and its consumers; on directories of stopped, killed and running brokers |
| verify | `verify --deep`: no error and no warning for what brokers leave; a finding for data that was damaged while \
a broker ran |
| forecast | `startup`, with what the broker then does: first and last offsets, remaining files and their sizes, \
failures; on undamaged and randomly damaged directories. Also whether brokers of the other releases start |
| dump | `dump-log`, with that release's own kafka-dump-log: every byte and the exit code, for every file in every \
mode, for right and wrong options, and for randomly damaged files \
([releases.md](releases.md#how-dump-log-is-compared)) |
| write | `repair` changes nothing in undamaged logs. The broker and clients read what `repair`, `append`, `roll` and \
`compact` wrote. `compact` leaves the same bytes as the release's cleaner; `append` and `rebuild-index` leave the \
same index bytes as its broker |

Java's clients, confluent-kafka (librdkafka), kafka-python and aiokafka write and read, with every codec that they \
have.

## Run it

    ./dev kafka                                    # all releases, at most 3 at a time
    ./dev kafka tests/kafka/test_reading.py        # one file
    ./dev kafka --release 4.3.1 --rounds 260       # a campaign of random damages
    ./dev kafka --release 4.3.1 --rounds 100 tests/kafka/test_loading.py  # 400 damaged partitions, no broker
    ./dev kafka --release 4.3.1 --seconds 600 tests/kafka/test_soak.py
    ./dev kafka --release 4.3.1 --rounds 20 tests/kafka/test_moments.py  # 500 moments of a broker under load
    ./dev kafka --release 4.3.1 tests/kafka/test_disks.py  # six brokers' disks, any of them; only by name
    KDUMP_KAFKA_DATA_SEED=7 ./dev kafka            # more data, random settings and features
    ./dev kafka --write-docs

* The job needs a JDK (17 or later) and, for the first run, Maven. Without them it names what it did not run, and \
exits with
  3.
* It keeps jars, data sets and shared classes below `~/.cache/kdump/kafka` (or `KDUMP_KAFKA_JARS`). It checks the jars
  against locked SHA-256 sums.
* It locks ports, so several jobs can run on one machine.
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
