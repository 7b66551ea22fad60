"""`kdump startup` on what a broker left, held against what the broker then did with a copy of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.broker import Broker
from tests.kafka.command import jsonl
from tests.kafka.directories import Rich, State, rich
from tests.kafka.server_log import cleaned, loaded
from tests.kafka.tally import Column, Tally

REPAIRING: Sequence[Sequence[str]] = (
    ("repair",), ("repair", "--strategy", "salvage"), ("repair", "--strategy", "truncate"),
    ("rebuild-index",), ("trim",),
)

_RETENTION = ("expired", "busy-expired", "small")


def _outcomes(directory: Rich, *, now: int) -> tuple[int, dict[str, dict[str, Any]]]:
    config = directory.folder / "server.properties"
    done = jsonl("startup", "--config", config, "--now", now, *directory.log_dirs)
    return done.exit_code, {Path(row["path"]).name: row for row in done.of_type("outcome")}


def _now(directory: Rich) -> int:
    return int((directory.folder / "server.log").stat().st_mtime * 1000)


def test_logs_load_as_forecast(directory: Rich, tally: Tally) -> None:
    with tally.of(directory.release, Column.FORECAST) as compare:
        code, outcomes = _outcomes(directory, now=_now(directory))
        compare.same("startup: exit code", code, 0)
        loads = {Path(path).name: one for path, one in loaded(directory.server_log).items()}
        for name, load in loads.items():
            row = outcomes.get(name, {})
            segments = sum(file.endswith(".log") for file in row.get("files") or ())
            got = (row.get("isLoaded"), row.get("logStartOffset"), row.get("logEndOffset"), segments)
            theirs = (True, load.start, load.end, load.segments)
            compare.same(f"startup: start, end and segments of {name}", got, theirs)


def test_files_become_what_is_forecast(directory: Rich, tally: Tally) -> None:
    """In partitions that nobody wrote to between the broker's start and its orderly stop."""
    with tally.of(directory.release, Column.FORECAST) as compare:
        _, outcomes = _outcomes(directory, now=_now(directory))
        busy = cleaned(directory.server_log)
        for path in directory.partitions:
            name = path.name
            if name.startswith(("__", *_RETENTION)) or name in busy or name not in directory.truth["offsets"]:
                continue
            if outcomes[name]["logEndOffset"] != directory.truth["offsets"][name]["latest"]:
                continue
            theirs = next(disk / name for disk in directory.recovered if (disk / name).is_dir())
            for file in sorted(theirs.iterdir()):
                # A leader writes down the epoch in which it began to lead.
                if file.name != "leader-epoch-checkpoint":
                    forecast = outcomes[name]["files"].get(file.name)
                    compare.same(f"startup: size of {name}/{file.name}", forecast, file.stat().st_size)
            left = set(outcomes[name]["files"]) - {file.name for file in theirs.iterdir()}
            compare.same(f"startup: files of {name} that are not there", sorted(left), [])


def test_other_releases_start_as_forecast(release: str, other: str, tally: Tally, tmp_path: Path) -> None:
    """A broker of this release on what another left: up or down, it starts or not as `--kafka` says."""
    with tally.of(release, Column.FORECAST) as compare:
        broker = Broker(release, tmp_path, rich(other, State.STOPPED).copy(tmp_path))
        done = jsonl("startup", "--kafka", release, "--config", broker.config, *broker.log_dirs)
        serves, _ = broker.tried()
        compare.same(f"{release} serves on what {other} left", done.of_type("broker")[0]["isStartable"], serves)


@pytest.mark.parametrize("command", REPAIRING, ids=" ".join)
def test_nothing_is_planned_for_what_is_sound(directory: Rich, tally: Tally, command: Sequence[str]) -> None:
    """After an orderly stop: of the broker that wrote the directory, or of the one that was started on a copy."""
    with tally.of(directory.release, Column.WRITE) as compare:
        for log_dirs in [directory.recovered] + ([directory.log_dirs] if directory.state is State.STOPPED else []):
            done = jsonl(*command, *log_dirs)
            compare.same(f"{' '.join(command)}: exit code for {log_dirs[0].parent.name}", done.exit_code, 0)
            for row in done.of_type("partition"):
                compare.same(f"{' '.join(command)}: changes in {row['path']}", row["operations"], 0)
