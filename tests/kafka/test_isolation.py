"""`--isolation read_committed` on directories that a broker left, compared with what its consumers got of them."""

from __future__ import annotations

import json
from collections import defaultdict

from tests.kafka.command import jsonl
from tests.kafka.directories import Rich
from tests.kafka.tally import Column, Tally


def test_committed_records_are_those_that_consumers_get(directory: Rich, tally: Tally) -> None:
    consumed: dict[str, set[int]] = defaultdict(set)
    for row in directory.records():
        if row["committed"]:
            consumed[row["partition"]].add(row["offset"])
    folders = [path for disk in directory.recovered for path in sorted(disk.iterdir()) if path.is_dir()]
    folders = [path for path in folders if not path.name.startswith("__") and path.name[-1].isdigit()]
    with tally.of(directory.release, Column.READ) as compare:
        done = jsonl("dump", "--raw", "--isolation", "read_committed", *folders)
        compare.same("dump: exit code", done.exit_code, 0)
        found: dict[str, set[int]] = defaultdict(set)
        for row in map(json.loads, done.out.splitlines()):
            if row["type"] == "record":
                found[f"{row['topic']}-{row['partition']}"].add(row["offset"])
        for folder in folders:
            compare.same(f"committed offsets of {folder.name}", found[folder.name], consumed[folder.name])
