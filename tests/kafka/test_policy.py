"""An empty cleanup.policy: what brokers of each release do with it, and what `retain` and `compact` say."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kafka.broker import Broker
from tests.kafka.command import jsonl
from tests.kafka.directories import MADE
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Tally

TOPIC = "kept"
_CONFIGS = {
    "cleanup.policy": "",
    "retention.ms": "1",
    "retention.bytes": "1",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0",
}
SEGMENTS = 4
_ROUNDS = 4
"""Of retention, each of a second, that the broker is given; the cleaner has two in each."""


def test_an_empty_policy_keeps_everything(release: str, tally: Tally, tmp_path: Path) -> None:
    """Brokers take it, and then neither age nor size deletes, and no key counts; retain and compact say the same."""
    broker = Broker(release, tmp_path, [tmp_path / "data"])
    broker.format()
    try:
        broker.start()
        with Kit(release, MADE, tmp_path / "kit.log") as kit:
            kit.ask("admin", servers=broker.servers, step="create", topic=TOPIC, configs=_CONFIGS)
            for number in range(SEGMENTS):
                values = [f"value {number}"]
                kit.ask("admin", servers=broker.servers, step="produce", topic=TOPIC, key="same", values=values)
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
        records = [row["value"] for row in jsonl("dump", partition).of_type("record")]
        compare.same("records that stay", records, [f"value {number}" for number in range(SEGMENTS)])
        cleaned = jsonl("compact", partition)
        compare.same("compact: what is due", cleaned.of_type("partition"), [])
        compare.holds(f"the broker deleted none of {SEGMENTS} segments: {segments} are left", segments == SEGMENTS)
