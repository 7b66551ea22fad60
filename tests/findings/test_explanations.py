"""Every finding is explained, and what Kafka prints leads to the findings that it is about."""

from __future__ import annotations

import pytest

from kdump.findings.catalogue import CATALOGUE
from kdump.findings.explanations import EXPLANATIONS
from kdump.findings.kafka_messages import MAX_LINE, MESSAGES, messages_in, partition_in


def test_every_code_is_explained() -> None:
    assert set(EXPLANATIONS) == set(CATALOGUE)


def test_a_message_is_found_in_a_line_that_has_it() -> None:
    for message in MESSAGES:
        line = f"[2026-11-22 10:00:00,001] WARN {message.text} (kafka.log.LogManager)"
        assert message in [said.message for said in messages_in(line)], message.template
        assert set(message.codes) <= set(CATALOGUE), message.template


LINES = [
    ("[LogLoader partition=orders-17, dir=/data] Corruption found in segment 235, truncating to offset 240"
     " (org.apache.kafka.storage.internals.log.LogLoader)", "KD-LOG-CRC", "/data/orders-17"),
    ("Found invalid messages in log segment /data/orders-17/00000000000000000235.log at byte offset 839.",
     "KD-LOG-CRC", "/data/orders-17"),
    ("ERROR Error while reading checkpoint file /d/t-0/leader-epoch-checkpoint java.io.IOException: Malformed line in"
     " checkpoint file [/d/t-0/leader-epoch-checkpoint]: x y z", "KD-CKPT-FORMAT", "/d/t-0"),
    ("Record batch for partition orders-17 at offset 240 is invalid, cause: Record is corrupt (stored crc = 1,"
     " computed crc = 2)", "KD-LOG-CRC", "orders-17"),
    ("Duplicate log directories for a-0 are found in both /d1/a-0 and /d2/a-0. It is likely because log directory"
     " failure happened", "KD-DIR-DUPLICATE", "/d1/a-0"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code", "place"), LINES, ids=[each[1] for each in LINES])
def test_real_lines(line: str, code: str, place: str) -> None:
    found = [said for said in messages_in(line) if code in said.message.codes]
    assert found
    assert place in [partition_in(said, line) for said in found]


def test_the_beginning_of_an_endless_line_is_looked_at() -> None:
    assert list(messages_in("x" * MAX_LINE + MESSAGES[0].text)) == []
    assert next(messages_in("No space left on device" + "x" * (1 << 20)))
