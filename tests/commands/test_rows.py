"""What stands around the rows of commands in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agreement.running import kdump

HEADER = ["type", "schema", "kdump", "host", "startedAt", "paths", "options"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log directory `data`, of a broker that was killed, with a batch cut short."""
    folder = tmp_path_factory.mktemp("home")
    spec = Path(__file__).resolve().parents[1] / "transcripts" / "specs" / "killed.yaml"
    assert kdump(folder, "fixture", "build", spec, "data", "--fault", "truncate-tail").code == 0
    return folder


ROWS = (
    "ls", "stats", "txns", "verify", "startup", "replicas", "retain", "compact", "repair", "rebuild-index", "trim",
    "undo",
)  # fmt: skip


@pytest.mark.parametrize("command", ROWS)
def test_every_command_has_a_header_rows_and_a_summary(command: str, home: Path) -> None:
    said = kdump(home, command, "data", "--format", "jsonl")
    header, *rows, summary = map(json.loads, said.out.splitlines())
    assert list(header) == HEADER
    assert (header["type"], header["schema"], header["paths"]) == ("header", f"kdump.{command}/1", ["data"])
    assert summary["type"] == "summary"
    assert summary["exitCode"] == said.code
    assert summary["verdict"] == {0: "ok", 1: "found", 3: "incomplete"}[said.code]
    assert all(row["type"] not in ("header", "summary") for row in rows)

    document = json.loads(kdump(home, command, "data", "--format", "json").out)
    assert list(document) == [*HEADER[1:], "rows", "summary"]
    assert len(document["rows"]) == len(rows)
    assert {row["type"] for row in document["rows"]} == {row["type"] for row in rows}
    assert document["summary"].keys() == summary.keys()


def test_options_that_were_given_are_in_the_header(home: Path) -> None:
    said = kdump(home, "verify", "data", "--deep", "--ignore", "KD-TIME-*", "--format", "jsonl")
    assert json.loads(said.out.splitlines()[0])["options"] == {"deep": True, "ignore": ["KD-TIME-*"]}


def test_rows_alone(home: Path) -> None:
    rows = [json.loads(line) for line in kdump(home, "ls", "data", "--format", "jsonl", "--no-header").out.splitlines()]
    assert {row["type"] for row in rows} == {"logDirectory", "partition"}


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_what_cannot_be_read_is_a_verdict(home: Path, format_: str) -> None:
    said = kdump(home, "stats", "nothing", "--format", format_)
    assert said.code == 3
    last = json.loads(said.out)["summary"] if format_ == "json" else json.loads(said.out.splitlines()[-1])
    assert (last["verdict"], last["exitCode"]) == ("incomplete", 3)


def test_a_wrong_command_line_prints_no_rows(home: Path) -> None:
    said = kdump(home, "ls", "data", "--format", "json", "--graph")
    assert (said.code, said.out) == (2, "")


def test_answers_to_requests_have_nothing_around_them(home: Path) -> None:
    said = kdump(home, "lookup", "data/payments-0", "--batch", "-", "--format", "json", stdin='{"offset": 0}\n')
    (answer,) = map(json.loads, said.out.splitlines())
    assert answer["batchBaseOffset"] == 0


def test_a_dump_with_header_and_summary_can_be_appended(home: Path) -> None:
    said = kdump(home, "dump", "data/payments-0", "--format", "jsonl")
    (home / "copy").mkdir()
    assert kdump(home, "append", "copy/payments-0", "--create", stdin=said.out).code == 0
