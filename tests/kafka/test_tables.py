"""The tables that kdump has from the jars: they are what the jars say, and a release that is not in them is told."""

from __future__ import annotations

from functools import cache

from tests.kafka.facts import Facts, facts_of
from tests.kafka.jars import RELEASES
from tests.kafka.tables import differences, written


@cache
def _facts(release: str) -> Facts:
    return facts_of(release)


def test_the_tables_are_what_the_jars_say() -> None:
    for path, text in written([_facts(release) for release in RELEASES]).items():
        assert path.read_text() == text, path.name


def test_a_release_that_is_taken_for_unknown_is_a_list_of_work() -> None:
    """Of 4.4.0 each line below was a fault of kdump, which knew 4.3."""
    work = list(differences(_facts("4.3.1"), _facts("4.4.0")))
    for line in (
        "new level: metadata.version 34 = 4.5-IV0",
        "new default: metadata.version 33 (was 30)",
        "other feature: share.version 2 (was 1)",
        "new limit: MAX_ARRAY_LENGTH 1000000",
        "new setting: topic max.decompressed.message.bytes INT 2147483639",
        "new record: UnregisterControllerRecord",
        "new text: org/apache/kafka/storage/internals/log/TransactionIndex$1: Unexpected aborted transaction version {}"
        " in transaction index {}, supported version range is 0 to 0",
    ):
        assert line in work
