"""`kdump doctor` in JSON: log directories, then what needs somebody, what is at stake most first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kdump.operations.actions import Action
from kdump.operations.diagnosis import Diagnosis
from kdump.operations.doctor import Health
from kdump.replication.choice import Choice

from ..shell.paths import place_of
from ..shell.rows import fields_of, json_line


def rows(health: Health) -> Iterator[str]:
    """Yield the rows, and the summary."""
    for each in health.directories:
        fields = {
            "path": each.path,
            **fields_of(each.state.broker, "node_id cluster_id"),
            **fields_of(each.state, "is_controller isClean=clean"),
            "isOffline": each.path in health.offline,
            **fields_of(each, "has_broker partitions bytes=size"),
            "warnings": list(each.state.warnings),
        }
        yield json_line("logDirectory", fields)
    for number, diagnosis in enumerate(health.diagnoses, 1):
        yield json_line("diagnosis", {"number": number} | _fields(diagnosis))
    yield json_line("summary", _summary(health))


def _fields(diagnosis: Diagnosis) -> dict[str, Any]:
    path = diagnosis.paths[0]
    first = diagnosis.findings[0] if diagnosis.findings else None
    return {
        "stake": diagnosis.stake.name.lower(),
        **fields_of(diagnosis, "title codes"),
        **place_of(path),
        "paths": list(diagnosis.paths),
        **fields_of(first, "file=path position length"),
        "firstOffset": diagnosis.offsets[0] if diagnosis.offsets else None,
        "lastOffset": diagnosis.offsets[1] if diagnosis.offsets else None,
        "found": list(diagnosis.found),
        "broker": diagnosis.broker or None,
        "consumers": diagnosis.consumers or None,
        "failure": diagnosis.failure.exception if diagnosis.failure else None,
        **fields_of(diagnosis.replicas, "replicas=brokers in_sync is_under_replicated is_under_min_isr"),
        **fields_of(diagnosis.replicas, "leader next_leader"),
        "leaders": [_leader(choice) for choice in diagnosis.copies.known_choices] if diagnosis.copies else None,
        "actions": [_action(action) for action in diagnosis.actions],
    }


def _leader(choice: Choice) -> dict[str, Any]:
    """Return what a choice of leader loses; `standing` is why it may lead, null without metadata."""
    return {
        **fields_of(choice, "leader=leader.broker standing"),
        **fields_of(choice.leader.log, "log_end"),
        **fields_of(choice, "blocked_at lostRecords=loss.records lostCommitted=loss.committed"),
        **fields_of(choice, "lostPossiblyAcknowledgedByAll=loss.possible"),
        **fields_of(choice.loss.keys, "lostKeys=lost"),
    }


def _action(action: Action) -> dict[str, Any]:
    return {
        "text": action.text or None,
        "command": list(action.command) or None,
        "condition": action.condition or None,
        "loses": action.loses,
    }


def _summary(health: Health) -> dict[str, Any]:
    return {
        "isStartable": health.starts,
        "offline": sorted(health.offline),
        "failures": [f"{failure.exception}: {failure.text}" for failure in health.stops],
        **fields_of(health, "partitions partitionsThatNeedYou=needing"),
        "diagnoses": len(health.diagnoses),
        **fields_of(health.copies, "comparedPartitions=partitions behindPartitions=behind"),
        **fields_of(health.copies, "differingPartitions=differing uncomparedPartitions=left"),
        **fields_of(health, "segments bytes=size bytesChecked=checked is_complete unread"),
        "seconds": round(health.seconds, 3),
    }
