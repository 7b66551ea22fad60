"""A broker was killed while it replaced segments: every reader takes the log as a broker has it after its start."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.running import Run
from tests.recovery.building import file
from tests.repair import damaged


def test_every_reader_says_how_it_reads_the_log(tmp_path: Path, run: Run) -> None:
    """The log begins in a .swap file: its replaced segments have gone already, as after a split that was cut short."""
    path = damaged.build(tmp_path)
    expected = run.out if run("dump", path, "--format", "jsonl") == 0 else ""
    for kind in ("log", "index", "timeindex"):
        (path / file(0, kind)).rename(path / file(0, f"{kind}.swap"))
    note = f"Note: {path}: a replacement of segments was not finished. kdump reads the files as after"
    for command in (["ls"], ["stats"], ["txns"], ["retain"], ["lookup", "--offset", "3"]):
        run(*command, path) if command[0] != "lookup" else run("lookup", path, *command[1:])
        assert note in run.err, command
    assert run("dump", path, "--format", "jsonl") == 0
    assert [row.get("offset") for row in run.of_type("record")] == [
        row.get("offset") for row in map(json.loads, expected.splitlines()) if row["type"] == "record"
    ]
    assert note in run.err
    run("verify", path)
    assert note not in run.err
