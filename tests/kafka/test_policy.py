"""An empty cleanup.policy: what brokers of each release do with it, and what `retain` says."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kafka.broker import Broker
from tests.kafka.command import jsonl
from tests.kafka.directories import MADE
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Tally

TOPIC = "kept"
_CONFIGS = {"cleanup.policy": "", "retention.ms": "1", "retention.bytes": "1", "segment.ms": "200"}
SEGMENTS = 4
_ROUNDS = 4
"""Of retention, each of a second, that the broker is given."""


def test_an_empty_policy_deletes_nothing(release: str, tally: Tally, tmp_path: Path) -> None:
    """Brokers take it, and then neither age nor size deletes; retain says the same."""
    broker = Broker(release, tmp_path, [tmp_path / "data"])
    broker.format()
    try:
        broker.start()
        with Kit(release, MADE, tmp_path / "kit.log") as kit:
            kit.ask("admin", servers=broker.servers, step="create", topic=TOPIC, configs=_CONFIGS)
            for number in range(SEGMENTS):
                kit.ask("admin", servers=broker.servers, step="produce", topic=TOPIC, values=[f"value {number}"])
                time.sleep(0.3)
            time.sleep(_ROUNDS)
        broker.stop()
    finally:
        broker.kill()
    with tally.of(release, Column.FORECAST) as compare:
        partition = tmp_path / "data" / f"{TOPIC}-0"
        done = jsonl("retain", partition)
        compare.same("retain: exit code", (done.exit_code, done.err), (0, ""))
        segments = len(list(partition.glob("*.log")))
        compare.same("segments that stay", done.of_type("partition")[0]["segments"], segments)
        compare.holds(f"the broker deleted none of {SEGMENTS} segments: {segments} are left", segments == SEGMENTS)
