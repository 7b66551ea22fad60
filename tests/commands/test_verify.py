"""`kdump verify`: formats, options and exit codes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kdump.findings.catalogue import CATALOGUE
from kdump.formats import names
from tests.commands.running import Run
from tests.verify.building import NOW, Log, batch, build, file, flip, put

LOG = file(0, "log")
LAST = file(6, "log")
FIELDS: dict[str, Any] = {
    "type": str, "code": str, "severity": str, "topic": str, "partition": int, "path": str,
    "position": (int, type(None)), "length": (int, type(None)),
    "firstOffset": (int, type(None)), "lastOffset": (int, type(None)), "details": dict,
    "message": str, "broker": str, "repair": str, "actions": list,
}  # fmt: skip
SUMMARY = {
    "type": str, "isSound": bool, "isComplete": bool, "errors": int, "warnings": int, "notes": int, "unread": int,
    "partitions": int, "segments": int, "segmentsSkipped": int, "bytes": int, "seconds": float,
    "verdict": str, "exitCode": int,
}  # fmt: skip
HEADER = {"schema": str, "kdump": str, "host": str, "startedAt": str, "paths": list, "options": dict}


class VerifyRun(Run):
    """Runs `kdump verify` at the time of these tests."""

    def __call__(self, *arguments: object) -> int:
        now = () if "--now" in arguments else ("--now", NOW)
        return super().__call__("verify", *now, *arguments)

    def objects(self, *arguments: object) -> list[dict[str, Any]]:
        self(*arguments, "--format", "jsonl", "--min-severity", "note")
        return self.rows

    def findings(self, *arguments: object) -> list[dict[str, Any]]:
        return self.objects(*arguments)[:-1]

    def codes(self, *arguments: object) -> list[str]:
        return [row["code"] for row in self.findings(*arguments)]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> VerifyRun:
    return VerifyRun(capfdbinary, monkeypatch)


@pytest.fixture
def sound(tmp_path: Path) -> Log:
    return build(tmp_path / "sound")


@pytest.fixture
def damaged(tmp_path: Path) -> Log:
    """A broken CRC (an error), good batches beyond (a warning), and what holds the segments (notes)."""
    log = build(tmp_path / "data")
    log.edit(LOG, flip(70))
    return log


# --- text -------------------------------------------------------------------------------------------------------------


def test_a_sound_directory(run: VerifyRun, sound: Log) -> None:
    assert run(sound.directory) == 0
    verdict, checked = run.out.splitlines()
    assert verdict == "OK. No errors in 1 partition."
    assert checked.startswith("Checked: 2 segments, 534 bytes in ")
    assert checked.endswith(" s; records not decoded (--deep).")
    assert run.err == ""


def test_findings_stand_under_their_partition(
    run: VerifyRun, damaged: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert run(damaged.directory) == 1
    lines = run.out.splitlines()
    assert lines[:2] == [str(damaged.partition), f"  error    KD-LOG-CRC  {LOG}, byte 0"]
    assert lines[2].startswith("           batch 0\N{EN DASH}1 (2 records, 89 bytes) fails its CRC: stored 0x")
    assert any(line.startswith("           If the broker recovers this segment, it cuts the log") for line in lines)
    assert f"  warning  KD-LOG-BEYOND  {LOG}, byte 0" in lines
    folded = "".join(lines[: lines.index("")]).replace(" ", "")
    assert folded.endswith(f"do: kdump doctor {damaged.partition} (choose: lossless first)".replace(" ", ""))
    assert lines[lines.index("") + 1] == "FOUND: 1 error, 1 warning in 1 of 1 partition."
    assert lines[-1] == f"Next: kdump doctor {damaged.directory}"
    assert "KD-TIME-HELD" not in run.out


def test_in_a_pipe_a_finding_is_a_line_with_its_partition(run: VerifyRun, damaged: Log) -> None:
    assert run(damaged.directory) == 1
    first, second, nothing, verdict, _, following = run.out.splitlines()
    assert first.startswith(f"{damaged.partition}  error  KD-LOG-CRC  {LOG}, byte 0: batch 0\N{EN DASH}1 (2 records, ")
    assert re.search(r"stored 0x[0-9a-f]{8}, computed 0x[0-9a-f]{8}$", first)
    assert second.startswith(f"{damaged.partition}  warning  KD-LOG-BEYOND  {LOG}, byte 0: 2 valid batches (")
    assert (nothing, verdict) == ("", "FOUND: 1 error, 1 warning in 1 of 1 partition.")
    assert following == f"Next: kdump doctor {damaged.directory}"


def test_notes_are_shown_when_asked_for(run: VerifyRun, sound: Log) -> None:
    assert run("-v", sound.directory) == 0
    assert run.out.count("  note  KD-TIME-HELD") == 2
    assert "a broker" not in run.out


def test_what_a_broker_does_is_said_once_for_a_code_and_partition(
    run: VerifyRun, damaged: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged.edit(LOG, flip(2 * 89 + 70))
    monkeypatch.setenv("COLUMNS", "100")
    run(damaged.directory)
    assert run.out.count("KD-LOG-CRC") == 2
    assert run.out.count("it cuts the log at this batch") == 1


def test_colour_only_where_it_is_wanted(run: VerifyRun, damaged: Log) -> None:
    run(damaged.directory)
    assert "\x1b" not in run.out
    run("--color", "always", damaged.directory)
    assert "\x1b[31m\x1b[1merror" in run.out
    assert "\x1b[31m\x1b[1mFOUND:" in run.out


def test_names_cannot_drive_a_terminal(run: VerifyRun, tmp_path: Path) -> None:
    log = build(tmp_path / "da\x1b[2Jta\udcff")
    log.edit(LOG, flip(70))
    for form in ("text", "json", "jsonl", "junit", "sarif"):
        assert run("-v", "--format", form, log.directory) == 1
        assert "\x1b" not in run.out


# --- formats for programs ---------------------------------------------------------------------------------------------


def test_json_lines(run: VerifyRun, damaged: Log) -> None:
    *findings, summary = run.objects(damaged.directory)
    assert [row["code"] for row in findings] == ["KD-LOG-CRC", "KD-LOG-BEYOND", "KD-TIME-HELD", "KD-TIME-HELD"]
    for row in findings:
        assert set(row) == set(FIELDS)
        assert all(isinstance(row[name], kind) for name, kind in FIELDS.items())
        assert (row["type"], row["topic"]) == ("finding", "orders")
        assert row["broker"] == CATALOGUE[row["code"]].broker
    first = findings[0]
    assert (first["path"], first["position"], first["firstOffset"]) == (str(damaged.path(0, "log")), 0, 0)
    assert list(summary) == list(SUMMARY)
    assert all(isinstance(summary[name], kind) for name, kind in SUMMARY.items())
    assert (summary["type"], summary["isSound"], summary["isComplete"]) == ("summary", False, True)
    assert (summary["errors"], summary["warnings"], summary["notes"], summary["unread"]) == (1, 1, 2, 0)
    assert (summary["partitions"], summary["segments"], summary["bytes"]) == (1, 2, 534)


def test_a_finding_says_which_bytes_and_offsets_it_is_about(run: VerifyRun, damaged: Log) -> None:
    crc, beyond, *_ = run.findings(damaged.directory)
    data = damaged.path(0, "log").read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    assert (crc["position"], crc["length"], crc["firstOffset"], crc["lastOffset"]) == (0, size, 0, 1)
    assert crc["details"]["storedCrc"] == int.from_bytes(data[17:21], "big")
    assert crc["details"]["computedCrc"] not in (None, crc["details"]["storedCrc"])
    assert (beyond["length"], beyond["firstOffset"], beyond["lastOffset"]) == (None, 2, 5)
    assert beyond["details"] == {"batches": 2, "records": 4, "bytes": len(data) - size, "laterSegments": 1}


def test_the_missing_offsets_of_a_checkpoint_are_a_range(run: VerifyRun, sound: Log) -> None:
    (Path(sound.directory) / names.REPLICATION_CHECKPOINT).write_text("0\n1\norders 0 20\n")
    (found,) = run.findings(sound.directory, "--select", "KD-CKPT-HIGH-WATERMARK")
    end = found["details"]["logEndOffset"]
    assert (found["firstOffset"], found["lastOffset"]) == (end, 19)


def test_an_incomplete_batch_says_how_much_of_it_is_there(run: VerifyRun, sound: Log) -> None:
    last = sound.path(6, "log")
    size = last.stat().st_size
    with last.open("r+b") as file:
        file.truncate(size - 1)
    (found,) = run.findings(sound.directory, "--select", "KD-LOG-TORN")
    assert found["length"] == size - 1 - found["position"]
    assert found["details"] == {"batchSize": size - found["position"]}
    assert found["firstOffset"] <= found["lastOffset"]


def test_an_index_entry_is_eight_bytes(run: VerifyRun, sound: Log) -> None:
    index = sound.path(0, "index")
    index.write_bytes((1).to_bytes(4, "big") + (9999).to_bytes(4, "big"))
    (found,) = run.findings(sound.directory, "--select", "KD-IDX-POSITION", "--ignore", "KD-IDX-OFFSET")[:1]
    assert (found["position"], found["length"], found["details"]) == (0, 8, {"entry": 0})
    assert found["firstOffset"] == found["lastOffset"] == 1


def test_one_json_document(run: VerifyRun, damaged: Log, sound: Log) -> None:
    rows = run.objects(damaged.directory)
    assert run("--format", "json", "--min-severity", "note", damaged.directory) == 1
    document = json.loads(run.out)
    assert list(document) == [*HEADER, "rows", "summary"]
    assert document["rows"] == rows[:-1]
    assert {**document["summary"], "seconds": 0} == {**rows[-1], "seconds": 0}
    assert run("--format", "json", "--ignore", "KD-*", sound.directory) == 0
    assert json.loads(run.out)["rows"] == []


def test_junit(run: VerifyRun, damaged: Log) -> None:
    sound = build(damaged.directory, name="payments-3")
    assert run("--format", "junit", damaged.directory) == 1
    root = ElementTree.fromstring(run.out)
    assert (root.tag, root.get("name")) == ("testsuites", "kdump verify")
    suites = {suite.get("name"): suite for suite in root}
    assert str(sound.partition) in suites
    (passed,) = suites[str(sound.partition)]
    assert len(passed) == 0
    suite = suites[str(damaged.partition)]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    error, warning = suite
    assert error.get("classname") == "KD-LOG-CRC"
    assert error.get("name") == f"KD-LOG-CRC {damaged.path(0, 'log')} byte 0"
    (failure,) = error
    assert (failure.tag, failure.get("type")) == ("failure", "error")
    assert "repair: " in (failure.text or "")
    assert [child.tag for child in warning] == ["system-out"]
    assert run("--format", "junit", "--fail-on", "warning", damaged.directory) == 1
    assert ElementTree.fromstring(run.out)[-2].get("failures") == "2"


def test_sarif(run: VerifyRun, damaged: Log) -> None:
    assert run("--format", "sarif", damaged.directory) == 1
    document = json.loads(run.out)
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-2.1.0.json")
    (sarif,) = document["runs"]
    rules = {rule["id"]: rule for rule in sarif["tool"]["driver"]["rules"]}
    assert set(rules) == set(CATALOGUE)
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in rules.values())
    assert {rule["defaultConfiguration"]["level"] for rule in rules.values()} == {"error", "warning", "note"}
    first = sarif["results"][0]
    assert (first["ruleId"], first["level"], first["properties"]["offset"]) == ("KD-LOG-CRC", "error", 0)
    (place,) = first["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == str(damaged.path(0, "log"))
    assert place["physicalLocation"]["region"] == {"byteOffset": 0, "byteLength": 89}
    assert all(result["ruleId"] in rules and result["message"]["text"] for result in sarif["results"])
    (invocation,) = sarif["invocations"]
    assert invocation["executionSuccessful"] is True
    assert invocation["properties"]["errors"] == 1


# --- options ----------------------------------------------------------------------------------------------------------


def test_select_and_ignore(run: VerifyRun, damaged: Log) -> None:
    assert run.codes("--select", "KD-LOG-*", damaged.directory) == ["KD-LOG-CRC", "KD-LOG-BEYOND"]
    assert run.codes("--select", "KD-LOG-CRC", "--select", "KD-IDX-*", damaged.directory) == ["KD-LOG-CRC"]
    both = "KD-LOG-CRC,KD-LOG-BEYOND"
    assert run.codes("--select", both, "--ignore", "*-CRC", damaged.directory) == ["KD-LOG-BEYOND"]
    assert run("--ignore", "KD-LOG-CRC", damaged.directory) == 0


def test_what_could_not_be_read_is_said_whatever_is_selected(run: VerifyRun, sound: Log) -> None:
    (sound.partition / "dangling").symlink_to("nowhere")
    assert run.codes("--select", "KD-LOG-CRC", sound.directory) == ["KD-READ"]
    assert run("--select", "KD-LOG-CRC", sound.directory) == 3


def test_severities_can_be_changed(run: VerifyRun, damaged: Log) -> None:
    assert run("--severity", "KD-LOG-CRC=warning", damaged.directory) == 0
    assert "  warning  KD-LOG-CRC" in run.out
    assert run("--severity", "KD-TIME-*=error", "--severity", "KD-TIME-HELD=note", "--ignore", "KD-LOG-*",
               damaged.directory) == 0
    (held, _, summary) = run.objects("--severity", "KD-*=warning", "--ignore", "KD-LOG-*", damaged.directory)
    assert (held["severity"], summary["warnings"]) == ("warning", 2)


def test_strict(run: VerifyRun, damaged: Log) -> None:
    assert run("--ignore", "KD-LOG-CRC", "--fail-on", "warning", damaged.directory) == 1
    assert run("--ignore", "KD-LOG-*", "--fail-on", "warning", damaged.directory) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--select", "KD-LOG-CRX"), "no code matches 'KD-LOG-CRX'. Did you mean 'KD-LOG-CRC'?"),
        (("--ignore", "nonsense"), "no code matches 'nonsense'"),
        (("--severity", "KD-LOG-CRC=fatal"), "expected CODE=level, level one of error, warning, note"),
        (("--severity", "KD-LOG-CRC"), "expected CODE=level"),
        (("--severity", "KD-X=error"), "no code matches 'KD-X'"),
        (("--max-duration", "soon"), "'soon' is not a duration: expected 90, 90s, 15m or 1h30m"),
        (("--jobs", "0"), "--jobs: 0: expected a whole number from 1 on"),
        (("--format", "xml"), "'xml' is not one of"),
    ],
)
def test_wrong_usage(run: VerifyRun, sound: Log, arguments: tuple[str, ...], text: str) -> None:
    assert run(*arguments, sound.directory) == 2
    assert text in run.err
    assert run.out == ""


def test_paths_are_required(run: VerifyRun) -> None:
    assert run() == 2


def test_deep_decodes(run: VerifyRun, tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: [batch(0, max_timestamp=NOW)]})
    assert "KD-BATCH-MAX-TIMESTAMP-HIGH" not in run.codes(log.directory)
    assert "KD-BATCH-MAX-TIMESTAMP-HIGH" in run.codes("--deep", log.directory)


def test_since_the_checkpoint(run: VerifyRun, damaged: Log) -> None:
    (damaged.directory / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 7\n")
    *findings, summary = run.objects("--since-checkpoint", damaged.directory)
    assert summary["segments"] == 1
    assert {row["path"] for row in findings if row["code"].startswith("KD-LOG")} == set()
    (damaged.directory / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 5\n")
    assert run.objects("--since-checkpoint", damaged.directory)[-1]["segments"] == 2
    (damaged.directory / names.RECOVERY_POINT_CHECKPOINT).unlink()
    assert run.objects("--since-checkpoint", damaged.directory)[-1]["segments"] == 2


def test_the_clock_and_the_retention(run: VerifyRun, sound: Log) -> None:
    (held, *_) = run.findings("--retention-ms", "1000", sound.directory)
    assert "retention.ms=1000 keeps the segment until 2023-11-14T22:13:21.005Z" in held["message"]
    assert "KD-TIME-FUTURE" in run.codes("--now", NOW - 86_400_000, sound.directory)


@pytest.fixture
def many(tmp_path: Path) -> Log:
    """Four partitions, one of them broken."""
    for number in range(4):
        log = build(tmp_path / "data", name=f"orders-{number}")
        if number == 2:
            log.edit(LOG, flip(70))
    return log


def test_threads_do_not_change_what_is_said(run: VerifyRun, many: Log) -> None:
    alone = run.findings("--jobs", "1", many.directory)
    assert alone
    assert run.findings("--jobs", "3", many.directory) == alone
    assert run.findings(many.directory) == alone


def test_a_run_that_ends_early_is_resumed(run: VerifyRun, many: Log, tmp_path: Path) -> None:
    place = tmp_path / "place"
    whole = run.findings(many.directory)
    again: list[dict[str, Any]] = []
    runs = 0
    while not runs or place.exists():
        *findings, summary = run.objects("--max-duration", "0", "--resume", place, many.directory)
        assert summary["isComplete"] is not place.exists()
        assert summary["segments"] == 1
        again += findings
        runs += 1
    assert runs == 8
    assert sorted({json.dumps(row) for row in again}) == sorted({json.dumps(row) for row in whole})


def test_a_run_that_ends_early_says_so(run: VerifyRun, many: Log) -> None:
    assert run("--max-duration", "0", many.directory) == 0
    verdict, checked = run.out.splitlines()
    assert verdict == "The time was up (--max-duration): the exit code is about what was checked."
    assert checked.startswith("Checked: 1 segment, ")


def test_a_place_in_other_paths_is_not_taken_up(run: VerifyRun, many: Log, sound: Log, tmp_path: Path) -> None:
    place = tmp_path / "place"
    run("--max-duration", "0", "--resume", place, many.directory)
    assert run.objects("--resume", place, sound.partition)[-1]["segments"] == 2
    assert not place.exists()


def test_a_place_may_be_given_by_another_name(
    run: VerifyRun, many: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    run("--max-duration", "0", "--resume", place, many.directory)
    monkeypatch.chdir(tmp_path)
    assert run.objects("--resume", place, "data")[-1]["segments"] == 7


def test_a_place_whose_partition_is_gone_means_all_of_it(run: VerifyRun, many: Log, tmp_path: Path) -> None:
    place = tmp_path / "place"
    run("--max-duration", "0", "--resume", place, many.directory)
    place.write_text(place.read_text().replace("orders-0", "orders-9"))
    assert run.objects("--resume", place, many.directory)[-1]["segments"] == 8


@pytest.mark.parametrize("content", ["", "{}", "[" * 100_000, '{"kdump_verify": 2}', "\0"])
def test_a_file_that_is_no_place(run: VerifyRun, sound: Log, tmp_path: Path, content: str) -> None:
    place = tmp_path / "place"
    place.write_text(content)
    assert run("--resume", place, sound.directory) == 3
    assert f"{place} is not a resume file of kdump verify" in run.err
    assert place.read_text() == content


def test_pages_are_given_back(run: VerifyRun, sound: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *advice: dropped.append(advice), raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)
    run(sound.directory)
    assert dropped == []
    run("--drop-cache", sound.directory)
    assert dropped == [(0, 267, 4), (0, 267, 4)]


def test_findings_that_are_all_alike_are_counted(run: VerifyRun, tmp_path: Path) -> None:
    segments = {0: [batch(n) for n in range(0, 60, 2)]}
    log = build(tmp_path / "data", segments)
    log.edit(file(0, "index"), lambda data: b"".join(put(7, bytes((data[at + 7] ^ 1,)))(data[at : at + 8])
                                                     for at in range(0, len(data), 8)))
    every = run.codes("--max-per-code", "0", log.directory).count("KD-IDX-POSITION")
    assert every > 10
    some = [row for row in run.findings("--max-per-code", "3", log.directory) if row["code"] == "KD-IDX-POSITION"]
    assert len(some) == 4
    assert (some[-1]["message"], some[-1]["position"]) == (f"{every - 3} more like those before", None)
    assert run.codes(log.directory).count("KD-IDX-POSITION") == every


# --- paths ------------------------------------------------------------------------------------------------------------


def test_partitions_and_files(run: VerifyRun, damaged: Log) -> None:
    whole = run.findings(damaged.directory)
    assert run.findings(damaged.partition) == whole
    assert run.codes(damaged.path(0, "log")) == ["KD-LOG-CRC", "KD-LOG-BEYOND", "KD-TIME-HELD"]
    assert run.codes(damaged.path(6, "log")) == ["KD-TIME-HELD"]
    assert run.codes(damaged.path(0, "index")) == []
    damaged.edit(file(0, "index"), flip(7))
    assert run.codes(damaged.path(0, "index")) == ["KD-IDX-POSITION"]
    assert run.codes(damaged.directory / names.RECOVERY_POINT_CHECKPOINT) == []
    (damaged.directory / names.RECOVERY_POINT_CHECKPOINT).write_text("junk\n0\nx\n")
    assert run.codes(damaged.directory / names.RECOVERY_POINT_CHECKPOINT) == ["KD-CKPT-FORMAT"]


def test_a_pattern(run: VerifyRun, many: Log) -> None:
    assert run.objects(many.directory / "orders-[01]")[-1]["partitions"] == 2
    assert run(many.directory / "orders-[89]") == 3
    assert run.err == f"kdump: {many.directory}/orders-[89]: nothing matches this pattern\n"


@pytest.fixture
def wrong_paths(tmp_path: Path) -> list[tuple[Path, str]]:
    """Paths that there is nothing to verify at, and what is said of each."""
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "notes.txt").write_text("not Kafka's")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    return [
        (tmp_path / "none", " does not exist"),
        (
            strange,
            ": neither a partition directory (no <base offset>.log in it) nor a log directory (no <topic>-<partition>)",
        ),
        (strange / "notes.txt", ": not the name of a file that Kafka writes"),
        (loop, ": Too many levels of symbolic links"),
    ]


def test_what_cannot_be_verified_is_said_and_the_rest_checked(
    run: VerifyRun, damaged: Log, wrong_paths: list[tuple[Path, str]]
) -> None:
    for path, text in wrong_paths:
        assert run(path) == 3
        assert run.err == f"kdump: {path}{text}{'. Nothing was checked.' if text == ' does not exist' else ''}\n"
        assert run.out.splitlines()[0] == "INCOMPLETE. 1 file or directory could not be read."
        assert run(path, damaged.directory) == 3
        assert "KD-LOG-CRC" in run.out
    *findings, summary = run.objects(*[path for path, _ in wrong_paths], damaged.directory)
    assert (summary["unread"], summary["errors"], summary["isSound"], len(findings)) == (4, 1, False, 4)
