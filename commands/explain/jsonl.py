"""`kdump explain --format jsonl`: what an explanation, and a message of Kafka's, is as an object."""

from __future__ import annotations

from typing import Any

from kdump.findings.explained import explained
from kdump.findings.kafka_messages import KafkaMessage
from kdump.findings.kind import FindingKind

from ..shell.rows import fields_of


def explanation(kind: FindingKind) -> dict[str, Any]:
    """Return what a finding's code means."""
    known = explained(kind)
    return {
        "code": kind.code,
        "severity": kind.severity,
        "title": known.explanation.title,
        "meaning": kind.meaning,
        **fields_of(known.explanation, "broker consumers causes"),
        "kafkaSays": list(known.kafka_says),
        "actions": [
            {"command": list(remedy.words("PATH")) or None, "text": remedy.note, "loses": remedy.loses}
            for remedy in kind.remedies
        ],
    }


def message(found: KafkaMessage, place: str | None) -> dict[str, Any]:
    """Return what a message means, and the path that it is about."""
    said = {"text": found.text, "codes": found.codes, "path": place, "means": found.means}
    return {**said, "isRoutine": not found.do, "do": found.do}
