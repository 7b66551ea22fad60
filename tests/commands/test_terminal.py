"""What a terminal of 80 columns gets: lines that fit, tables that say what they leave out, a pager for what is long."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kdump.commands.shell.prose import fitted, text_width
from kdump.commands.shell.screen import Screen, begin_screen
from kdump.commands.shell.tables import aligned, cut_in_the_middle
from tests.agreement.running import kdump
from tests.commands.terminal import on_terminal
from tests.sampling import sampled

SPEC = """
seed: terminal
clock: 2026-11-20T02:10:00Z
shutdown: killed
producers:
  payer: {id: 4000, transactional: true}
topics:
  - name: payments.eu-central.customer-orders.audit
    partitions: 3
    config: {segment.bytes: 2000}
    steps:
      - append: {records: 40, batch_records: 8, value: {shape: json, size: [80, 160]}}
  - name: clicks
    partitions: 12
    config: {cleanup.policy: compact}
    steps:
      - append: {records: 12, batch_records: 4, value: {shape: text, size: 300}}
      - append: {records: 4, producer: payer}
faults:
  - {fault: flip-payload-bit, topic: payments.eu-central.customer-orders.audit, partition: 1, batch: 0}
  - {fault: truncate-tail, topic: clicks, partition: 2}
"""
COMMANDS = {
    "doctor": (), "verify": ("-v",), "startup": ("-v",), "ls": (), "stats": (), "txns": ("--all",), "repair": ("-v",),
    "rebuild-index": (), "trim": (), "compact": (), "retain": (), "undo": (), "replicas": ("-v",), "dump": (),
    "lookup": ("--offset", "2"), "explain": (), "help": (),
}  # fmt: skip
NO_PATH = ("explain", "help")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "spec.yaml").write_text(SPEC)
    said = kdump(folder, "fixture", "build", "spec.yaml", "data")
    assert said.code == 0, said.err
    return folder


def too_long(text: str, width: int) -> list[str]:
    """The lines that do not fit, but for those with a word that fits nowhere."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    return [line for line in lines if text_width(line) > width and max(map(text_width, line.split())) < width - 24]


@pytest.mark.parametrize("command", sampled(COMMANDS, 6))
@pytest.mark.parametrize("width", [80, 60])
def test_no_line_is_wider_than_the_terminal(
    command: str, width: int, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for color in ("never", "always"):
        arguments = () if command in NO_PATH else ("data", *COMMANDS[command])
        colors = () if command == "help" else ("--color", color)
        said = kdump(home, command, *arguments, *colors, terminal=True)
        assert said.code in (0, 1, 3), said.err
        assert said.out
        assert too_long(said.out, width) == []


def test_a_table_names_what_it_leaves_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    narrow = kdump(home, "ls", "data", terminal=True).out
    assert "Hidden: RECORDS, FIRST RECORD, CODECS" in narrow
    assert "payments.eu-cen" in narrow
    assert "Hidden" in kdump(home, "ls", "data").out
    monkeypatch.delenv("COLUMNS")
    for said in (kdump(home, "ls", "data", "--wide", terminal=True).out, kdump(home, "ls", "data").out):
        assert "CODECS" in said.splitlines()[3]
        assert "Hidden" not in said
        assert "…" not in said


@pytest.mark.parametrize("command", COMMANDS)
def test_columns_count_in_a_pipe_too(command: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = () if command in NO_PATH else ("data", *COMMANDS[command])
    unfolded = kdump(home, command, *arguments).out
    monkeypatch.setenv("COLUMNS", "80")
    assert too_long(kdump(home, command, *arguments).out, 80) == []
    if command not in NO_PATH:
        assert without_times(kdump(home, command, *arguments, "--wide").out) == without_times(unfolded)


def without_times(text: str) -> str:
    """A text without what a run takes."""
    return re.sub(r"\bin \d+(?:\.\d+)? s\b", "in N s", text)


@pytest.mark.parametrize("command", ["doctor", "explain", "verify"])
def test_a_pipe_folds_nothing(command: str, home: Path) -> None:
    """A sentence and a command are one line each, however long."""
    arguments = ("KD-LOG-CRC",) if command == "explain" else ("data", "--topic", "payments*")
    lines = kdump(home, command, *arguments).out.splitlines()
    assert max(map(len, lines)) > 120
    assert not any(line.endswith("\\") for line in lines)
    assert not any(re.match(r" {11,}[a-z]", line) for line in lines if not line.lstrip().startswith("kafka-"))


def test_verify_has_a_line_for_each_finding_where_there_is_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(*, terminal: bool = False) -> list[str]:
        said = kdump(home, "verify", "data", "--color", "never", terminal=terminal)
        return [line for line in said.out.splitlines() if "KD-LOG-TORN" in line]

    (line,) = lines()
    assert re.fullmatch(r"data/clicks-2  error  KD-LOG-TORN  \S+\.log, byte \d+: the log ends inside batch .*", line)
    monkeypatch.setenv("COLUMNS", "200")
    assert lines(terminal=True) == [line]
    monkeypatch.setenv("COLUMNS", "120")
    (line,) = lines(terminal=True)
    assert re.fullmatch(r"  error    KD-LOG-TORN  \S+\.log, byte \d+", line)


@pytest.mark.parametrize(
    "arguments",
    [
        ("completion", "bash"),
        ("fixture", "schema"),
        ("verify", "data", "--format", "junit"),
        ("verify", "data", "--format", "sarif"),
        ("dump", "data/clicks-0", "--format", "csv"),
        ("doctor", "data", "--format", "jsonl", "--no-header"),
    ],
    ids=" ".join,
)
def test_what_programs_read_is_never_folded(
    arguments: tuple[str, ...], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = kdump(home, *arguments).out
    monkeypatch.setenv("COLUMNS", "40")
    for is_terminal in (False, True):
        found = kdump(home, *arguments, terminal=is_terminal).out
        assert re.sub(r"\d+\.\d+", "N", found) == re.sub(r"\d+\.\d+", "N", said)


@pytest.mark.parametrize("columns", ["0", "-3", "eighty", "", "99999999999"])
def test_columns_that_are_no_width_are_ignored(columns: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "Hidden" not in kdump(home, "ls", "data").out


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    class Narrow(Screen):  # type: ignore[misc]  # kdump.commands is checked under another name
        width = 30

    monkeypatch.setattr(Screen, "current", Narrow())
    return Screen.current


def test_columns_go_by_priority(terminal: Screen) -> None:
    header = ("NAME", "SIZE", "FIRST OFFSET", "LAST OFFSET")
    lines = list(aligned(header, [("orders-1", "5", "0", "9")], drop=("FIRST OFFSET",)))
    assert lines[0].split() == ["NAME", "SIZE", "LAST", "OFFSET"]
    assert lines[-1] == "Hidden: FIRST OFFSET (--wide).\n"


def test_what_is_no_table_any_more_is_a_block_each(terminal: Screen) -> None:
    rows = [("a-partition-with-a-name", "of-fifteen-marks", "and-this-has-mo"), ("b-1", "c", "")]
    lines = "".join(aligned(("NAME", "WHAT", "WHY"), rows)).splitlines()
    assert lines[:3] == ["NAME  a-partition-with-a-name", "WHAT  of-fifteen-marks", "WHY   and-this-has-mo"]
    assert lines[3:] == ["", "NAME  b-1", "WHAT  c"]


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [("short", 9, "short"), ("payments.eu.audit-17", 13, "paymen…dit-17"), ("日本語日本語", 7, "日本…語")],
)
def test_a_long_name_is_cut_in_the_middle(text: str, width: int, cut: str) -> None:
    assert cut_in_the_middle(text, width) == cut
    assert text_width(cut) <= width


def test_a_command_that_is_folded_can_be_copied() -> None:
    line = "do: kdump repair /data/orders-17 --strategy salvage --only-copy --apply"
    folded = fitted(line, 40)
    assert all(len(each) <= 40 for each in folded.splitlines())
    assert folded.splitlines()[0].endswith(" \\")
    assert folded.replace("\\\n", " ").split() == line.split()


def test_a_label_keeps_its_column() -> None:
    assert fitted("  found   one two three four five", 20).splitlines() == [
        "  found   one two",
        "          three four",
        "          five",
    ]


def test_a_row_is_continued_under_its_beginning() -> None:
    assert fitted("batch 0  5 records  at byte 0  651 bytes  epoch 0", 34).splitlines() == [
        "batch 0  5 records  at byte 0  651",
        "  bytes  epoch 0",
    ]


def test_what_is_long_goes_through_the_pager(home: Path, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED\ncat\n")
    pager.chmod(0o755)
    asked = {"KDUMP_PAGER": str(pager), "LINES": "10"}
    long, short = home / "data", home / "data" / "clicks-0"
    assert on_terminal("ls", long, **asked).startswith("PAGED")
    assert "PAGED" not in on_terminal("ls", short, **asked | {"LINES": "40"})
    assert "PAGED" not in on_terminal("ls", long, "--no-pager", **asked)
    assert "PAGED" not in on_terminal("ls", long, "--format", "jsonl", **asked)
    assert "PAGED" not in on_terminal("repair", home / "none", "--apply", **asked)
    assert "clicks-11" in on_terminal("ls", long, KDUMP_PAGER="/no/such/pager", LINES="10")


def test_a_run_forgets_what_the_one_before_was_asked_for() -> None:
    Screen.current.is_quiet = True
    assert not begin_screen().is_quiet
