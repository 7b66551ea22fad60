"""`startup` on single partitions, damaged at random, against each release's own loading of a log (LogLoader)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kafka.command import jsonl
from tests.kafka.directories import MADE, State, rich
from tests.kafka.kit import Kit
from tests.kafka.log_damages import damage_partition, logs
from tests.kafka.tally import Column, Tally

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
NOW = 1_700_086_400_000
SETTINGS = {"segment.index.bytes": "1024", "index.interval.bytes": "200"}
_LARGEST = 60_000
"""Bytes of the logs of a partition that is taken."""

_A_ROUND = 4
"""Damaged partitions for each of `--rounds`."""


def _sources(release: str) -> list[Path]:
    """Partitions of Kafka's own classes, of all message formats, and of a broker of the release."""
    lines = (FIXTURES / "cases.jsonl").read_text().splitlines()
    cases = [FIXTURES / "corpus" / row["dir"] for row in map(json.loads, lines) if "source" not in row]
    brokers = [path for state in State for path in rich(release, state).partitions]
    found = [path for path in (*cases, *brokers) if path.name != "__cluster_metadata-0" and logs(path)]
    return [path for path in found if sum(log.stat().st_size for log in logs(path)) < _LARGEST]


def _sizes(folder: Path) -> dict[str, int]:
    """The files, but those that are only still to be unlinked."""
    kept = (path for path in folder.iterdir() if path.is_file() and path.suffix != ".deleted")
    return {path.name: path.stat().st_size for path in kept}


def _loaded(kit: Kit, folder: Path, **how: Any) -> dict[str, Any]:
    """What the release's own code says of a log, which it changes."""
    request = {"path": str(folder), "settings": SETTINGS, "now": NOW, **how}
    printed = kit.tool("Loading", json.dumps(request)).out.decode()
    answer: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return answer


def test_damaged_logs_load_as_forecast(
    release: str, tally: Tally, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.index.size.max.bytes=1024\nlog.index.interval.bytes=200\n")
    sources = _sources(release)
    rounds, seed = pytestconfig.getoption("--rounds"), pytestconfig.getoption("--seed")
    with tally.of(release, Column.FORECAST) as compare, Kit(release, MADE, tmp_path / "kit.log") as kit:
        for number in range(rounds * _A_ROUND):
            random = Random(f"{seed} {number}")
            ours, theirs = (tmp_path / str(number) / name / "topic-0" for name in ("kdump", "kafka"))
            shutil.copytree(random.choice(sources), ours)
            damages = damage_partition(ours, random)
            shutil.copytree(ours, theirs)
            is_clean = random.random() < 0.25
            log_start = random.choice((0, 0, 0, random.randrange(1500)))
            recovery_point = random.choice((0, 0, 0, random.randrange(1500)))
            options: tuple[object, ...] = ("--clean" if is_clean else "--unclean", "--recovery-point", recovery_point)
            options += ("--now", NOW, "--log-start-offset", log_start, "--config", config, "--kafka", release)
            before = _sizes(ours)
            (row,) = jsonl("startup", *options, ours).of_type("outcome")
            assert _sizes(ours) == before
            load = _loaded(kit, theirs, clean=is_clean, logStart=log_start, recoveryPoint=recovery_point)
            what = f"partition {number} ({', '.join(damages)})"
            differences = len(compare.differences)
            compare.same(f"{what}: exception", (row["failure"] or {}).get("exception"), load.get("exception"))
            if row["isLoaded"] and "exception" not in load:
                offsets = (row["logStartOffset"], row["logEndOffset"])
                compare.same(f"{what}: start and end", offsets, (load["start"], load["end"]))
                compare.same(f"{what}: files", sorted(row["files"].items()), sorted(_sizes(theirs).items()))
            if len(compare.differences) == differences:
                shutil.rmtree(tmp_path / str(number))
