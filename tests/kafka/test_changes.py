"""What kdump changes, brokers take and consumers read as it was said."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.kafka.answers import EXPIRING
from tests.kafka.broker import Broker
from tests.kafka.command import Ran, jsonl, run
from tests.kafka.directories import MADE, State, rich
from tests.kafka.kit import Kit
from tests.kafka.server_log import cleaned, loaded
from tests.kafka.tally import Column, Comparison, Tally

Records = dict[str, dict[int, dict[str, Any]]]

APPENDED = [f"appended {number}" for number in range(25)]


def _by_offset(rows: Iterable[dict[str, Any]]) -> Records:
    records: Records = defaultdict(dict)
    for row in rows:
        records[row["partition"]][row["offset"]] = row
    return records


def _serve(broker: Broker) -> tuple[dict[str, Any], Records]:
    """Start the broker: what it says, and all records as consumers get them."""
    path = broker.folder / "records.jsonl"
    try:
        broker.start()
        with Kit(broker.release, MADE, broker.folder / "kit.log") as kit:
            truth = kit.ask("truth", servers=broker.servers, records=str(path))
    finally:
        broker.kill()
    with path.open() as lines:
        return truth, _by_offset(map(json.loads, lines))


def _find(log_dirs: Sequence[Path], name: str) -> Path:
    return next(log_dir / name for log_dir in log_dirs if (log_dir / name).is_dir())


def _check_groups(compare: Comparison, before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, group in before["groups"].items():
        got = after["groups"].get(name, {}).get("commits")
        compare.same(f"commits of {name} after kdump's changes", got, group["commits"])


def _check_same(compare: Comparison, what: str, before: dict[int, Any], after: dict[int, Any]) -> None:
    compare.same(f"{what}: offsets", sorted(after), sorted(before))
    for offset in before.keys() & after.keys():
        if after[offset] == before[offset]:
            compare.agreed(1)
        else:
            compare.same(f"{what}: record {offset}", after[offset], before[offset])


def test_repaired_as_a_broker_would(release: str, tally: Tally, tmp_path: Path) -> None:
    """`repair --apply` of what a killed broker left: then the broker finds nothing to recover, and all is there."""
    killed = rich(release, State.KILLED)
    log_dirs = killed.copy(tmp_path)
    broker = Broker(release, tmp_path, log_dirs)
    with tally.of(release, Column.WRITE) as compare:
        done = jsonl("repair", "--strategy", "truncate", "--apply", "--config", broker.config, *log_dirs)
        _done(compare, "repair --apply", done)
        truth, records = _serve(broker)
        loads = {Path(path).name: one for path, one in loaded(broker.log).items()}
        theirs = {Path(path).name: one for path, one in loaded(killed.server_log).items()}
        compare.same("logs as loaded", loads, theirs)
        before = _by_offset(killed.records())
        for name in before:
            if not name.startswith(("__", *EXPIRING)) and name not in cleaned(broker.log) | cleaned(killed.server_log):
                _check_same(compare, name, before[name], records[name])
        _check_groups(compare, killed.truth, truth)


def test_salvaged_compacted_and_appended_to(release: str, tally: Tally, tmp_path: Path) -> None:
    """Several changes of what was stopped in order, each to topics of its own, and one start of the broker."""
    stopped = rich(release, State.STOPPED)
    log_dirs = stopped.copy(tmp_path)
    broker = Broker(release, tmp_path, log_dirs)
    with tally.of(release, Column.WRITE) as compare:
        lost = _salvage(compare, _find(log_dirs, "plain-1"))
        _fix_bits(compare, _find(log_dirs, "plain-2"))
        _rebuild_indexes(compare, _find(log_dirs, "create-time-0"))
        _append(compare, _find(log_dirs, "headers-0"))
        _done(compare, "compact", jsonl("compact", "--apply", "--min-cleanable-ratio", "0", *log_dirs))
        truth, records = _serve(broker)
        before = _by_offset(stopped.records())
        compare.same("compacted-0: last values", _last(records["compacted-0"]), _last(before["compacted-0"]))
        values = [row["value"] for row in records["headers-0"].values()][-len(APPENDED) :]
        compare.same("headers-0: what was appended", values, [_base64(text) for text in APPENDED])
        kept = {offset: row for offset, row in before["plain-1"].items() if offset not in lost}
        _check_same(compare, "plain-1", kept, records["plain-1"])
        for name in before:
            if name.startswith(("compact", "txn-compact", "busy-compact")):
                compare.same(f"{name}: last values", _last(records[name]), _last(before[name]))
                compare.holds(f"{name}: records from nowhere", records[name].keys() <= before[name].keys())
            elif not name.startswith(("__", "plain-1", "headers", *EXPIRING)):
                _check_same(compare, name, before[name], records[name])
        _check_groups(compare, stopped.truth, truth)


def _done(compare: Comparison, what: str, done: Ran) -> None:
    compare.same(f"{what}: exit code", (done.exit_code, done.err[:300] if done.exit_code else ""), (0, ""))


def _salvage(compare: Comparison, partition: Path) -> set[int]:
    """Damage a batch of a sealed segment, and salvage the rest. Returns the offsets of that batch."""
    log = sorted(partition.glob("*.log"))[2]
    batch = next(row for row in jsonl("dump", "--batches-only", log).rows if row["type"] == "batch")
    content = bytearray(log.read_bytes())
    content[batch["position"] + 70] ^= 0xFF
    log.write_bytes(content)
    _done(compare, "salvage", jsonl("repair", "--strategy", "salvage", "--apply", partition))
    return set(range(batch["baseOffset"], batch["lastOffset"] + 1))


def _fix_bits(compare: Comparison, partition: Path) -> None:
    """Flip a bit of a batch in each sealed segment, and have each put back: all records are there again."""
    for log in sorted(partition.glob("*.log"))[:-1]:
        content = bytearray(log.read_bytes())
        content[len(content) - 9] ^= 0x10
        log.write_bytes(content)
    _done(compare, "repair --fix-bit", jsonl("repair", "--fix-bit", "--apply", partition))


def _rebuild_indexes(compare: Comparison, partition: Path) -> None:
    """Swap the first and the last entry of each sealed index, and rebuild them."""
    for index in sorted(partition.glob("*.index"))[:-1]:
        held = index.read_bytes()
        if len(held) > 8:
            index.write_bytes(held[-8:] + held[8:-8] + held[:8])
    _done(compare, "rebuild-index", jsonl("rebuild-index", "--apply", partition))


def _append(compare: Comparison, partition: Path) -> None:
    lines = partition.parent.parent / "lines"
    lines.write_text("".join(f"{text}\n" for text in APPENDED))
    done = run("kdump", "append", "--format", "lines", "--input", lines, partition)
    compare.same("append: exit code", (done.exit_code, done.err), (0, ""))


def _last(records: dict[int, dict[str, Any]]) -> dict[str | None, str]:
    """What a compacted topic comes to: the last value of each key, without what is deleted."""
    last = {row["key"]: row["value"] for _, row in sorted(records.items()) if row["committed"]}
    return {key: value for key, value in last.items() if value is not None}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
