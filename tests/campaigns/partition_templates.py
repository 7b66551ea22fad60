"""Log directories without faults, of many small partitions of all kinds, drawn by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kdump.fixture.make import make

CLOCK = 1_700_000_000_000
"""When their stories begin, in ms."""
PARTITIONS = 30
CODECS = ("none", "none", "gzip", "snappy", "lz4", "zstd")
OLD_CODECS = ("none", "none", "gzip", "snappy", "lz4")
FORMATS = (None, None, None, None, "0.10.2", "0.9.0")
"""Values of message.format.version: None for v2, the others for v1 and v0."""

Steps = list[Any]
Story = Callable[[random.Random], Mapping[str, Any]]


def build(folder: Path, seed: str) -> None:
    """Build a log directory."""
    chance = random.Random(f"template {seed}")
    topics = [{"name": f"t{number}", **chance.choice(STORIES)(chance)} for number in range(PARTITIONS)]
    if chance.random() < 0.3:
        topics[0]["name"] = "__consumer_offsets"
        topics[0] |= {"config": {"cleanup.policy": "compact"}, "steps": _commits(chance)}
    make(
        {
            "seed": seed,
            "clock": CLOCK,
            "shutdown": chance.choice(("clean", "killed")),
            "producers": {
                "steady": {"id": 1000},
                "payer": {"id": 2000, "transactional": True},
                "refunder": {"id": 2001, "transactional": True, "epoch": 3},
            },
            "topics": topics,
            **({"cluster": {}} if chance.random() < 0.3 else {}),
        },
        folder,
    )


def _settings(chance: random.Random, **more: object) -> dict[str, object]:
    """Return the settings of a topic: small indexes with many entries."""
    return {"segment.index.bytes": 1200, "index.interval.bytes": chance.choice((0, 100, 400, 4096)), **more}


def _records(chance: random.Random, codecs: tuple[str, ...], **more: object) -> dict[str, Any]:
    return {
        "append": {
            "records": chance.choice((1, 2, 4, 8, 12)),
            "batch_records": chance.choice((1, 1, 2, 3, 5)),
            "codec": chance.choice(codecs),
            "value": {"shape": chance.choice(("text", "binary", "json")), "size": [10, chance.choice((30, 60, 300))]},
            **more,
        }
    }


def _plain(chance: random.Random) -> Mapping[str, Any]:
    """Return a topic of any message format with leader epochs and some segments."""
    version = chance.choice(FORMATS)
    config = _settings(chance, **({} if version is None else {"message.format.version": version}))
    codecs = CODECS if version is None else OLD_CODECS
    producer: dict[str, object] = {"producer": "steady"} if version is None and chance.random() < 0.4 else {}
    steps: Steps = []
    for number in range(chance.choice((1, 1, 2, 3, 4))):
        if version is None and chance.random() < 0.5:
            steps.append({"leader_epoch": 2 * number + chance.choice((0, 1))})
        steps += [_records(chance, codecs, **producer) for _ in range(chance.choice((1, 2, 3)))]
        steps += ["roll"] if chance.random() < 0.7 else []
    start = {"start_offset": chance.choice((100, 2_147_483_600, 1 << 40))} if chance.random() < 0.15 else {}
    return {"config": config, "steps": steps, **start}


def _many_segments(chance: random.Random) -> Mapping[str, Any]:
    steps = [{"leader_epoch": 0}, _records(chance, CODECS)]
    count = chance.choice((6, 10, 14))
    return {"config": _settings(chance), "steps": [{"segments": {"count": count, "steps": steps}}]}


def _transactions(chance: random.Random) -> Mapping[str, Any]:
    steps: Steps = []
    for number in range(chance.choice((2, 3, 5))):
        steps += [_records(chance, CODECS, producer=name) for name in ("payer", "steady", "refunder")]
        steps.append(chance.choice(({"commit": "payer"}, {"abort": "payer"})))
        if chance.random() < 0.8:  # else it stays open, perhaps to the end of the log
            steps.append(chance.choice(({"commit": "refunder"}, {"abort": "refunder"})))
        steps += ["roll"] if chance.random() < 0.4 else []
        steps += [{"leader_epoch": 3 * number + 1}] if chance.random() < 0.3 else []
    return {"config": _settings(chance), "steps": steps}


def _compacted(chance: random.Random) -> Mapping[str, Any]:
    """Return a topic with few keys; `partition_faults` makes the empty offsets of a compaction."""
    key = {"shape": "key", "distinct": chance.choice((2, 5))}
    steps: Steps = []
    for _ in range(chance.choice((2, 3))):
        steps += [_records(chance, CODECS, key=key), _records(chance, CODECS, key=key), "roll"]
    return {"config": _settings(chance, **{"cleanup.policy": "compact"}), "steps": steps}


def _deleted_records(chance: random.Random) -> Mapping[str, Any]:
    steps: Steps = [{"append": {"records": 12, "batch_records": 2}}, "roll", {"append": {"records": 6}}]
    return {"config": _settings(chance), "steps": [*steps, {"delete_records": chance.choice((3, 12, 14))}]}


def _empty(chance: random.Random) -> Mapping[str, Any]:
    return {"config": _settings(chance), "steps": chance.choice(([], [{"append": {"records": 1}}, "roll"]))}


def _commits(chance: random.Random) -> Steps:
    commit = {"append": {"records": 6, "batch_records": 2, "key": "offset-key", "value": "offset-value"}}
    return [commit, "roll", commit] if chance.random() < 0.5 else [commit, commit]


STORIES: tuple[Story, ...] = (
    *[_plain] * 8, *[_transactions] * 4, _many_segments, _many_segments, _compacted, _compacted, _deleted_records,
    _empty,
)  # fmt: skip
