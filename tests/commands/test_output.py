"""What all commands print with, and how they read the values of options: texts, times, sizes, keys."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.commands.shell import values as filters
from kdump.commands.shell.output import Style, displayed
from kdump.formats.iso_times import iso_time
from kdump.formats.printable import escape_json, is_unsafe, safe, safe_lines, safe_path, shell_word
from kdump.formats.words import size_text
from tests.commands import hostile
from tests.commands.logs import write_partition
from tests.commands.running import Run

UNSAFE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.text())
def test_safe_text_is_printable(text: str) -> None:
    assert safe(text).isprintable()
    assert safe(text) == "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("it's \"fine\" \\ ü", "it's \"fine\" \\ ü"),
        ("a\nb", r"a\nb"),
        ("'\"\n\\", "'\"\\n\\"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\\'\x00", r"\'\x00"),
        ("\u202e\U000e0001", r"\u202e\U000e0001"),
    ],
)
def test_safe_text(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_safe_path() -> None:
    assert safe_path("/tmp/\udcff\x1b/ä") == r"/tmp/\xff\x1b/ä"


@given(st.text())
def test_lines_are_printable(text: str) -> None:
    assert safe_lines(text) == "\n".join(map(safe, text.split("\n")))


@given(st.binary(min_size=1).filter(lambda data: 0 not in data))
def test_a_shell_gets_the_word_that_it_is_given(data: bytes) -> None:
    word = shell_word(os.fsdecode(data))
    assert word.isprintable()
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert done.stdout == data


FEW_FAULTS = (
    "flip-payload-bit", "index-swap", "open-transaction", "truncate-tail", "other-node", "meta-properties-garbage",
)  # fmt: skip
SWEEP = (
    ("ls", "DIRECTORIES"),
    ("ls", "-v", "PARTITION"),
    ("dump", "PARTITION", "--tail", "2"),
    ("lookup", "FIRST", "--offset", "3"),
    ("stats", "FIRST", "-v"),
    ("groups", "DIRECTORIES"),
    ("txns", "DIRECTORIES"),
    ("doctor", "DIRECTORIES"),
    ("doctor", "-v", "DIRECTORIES"),
    ("doctor", "--brief", "FIRST"),
    ("verify", "-v", "DIRECTORIES"),
    ("startup", "-v", "DIRECTORIES"),
    ("replicas", "DIRECTORIES"),
    ("retain", "FIRST", "-v"),
    ("compact", "FIRST", "-v"),
    ("repair", "-v", "DIRECTORIES"),
    ("repair", "FIRST", "--strategy", "salvage"),
    ("rebuild-index", "FIRST"),
    ("trim", "FIRST", "-v"),
    ("undo", "FIRST"),
    ("resurrect", "FIRST", "--into", "NEW"),
    ("quorum", "show", "DIRECTORIES"),
)


def _swept(run: Run, directories: list[str], new: Path) -> None:
    """Run every command on the directories: nothing drives a terminal, and commands to paste have the true paths."""
    first = directories[0]
    partitions = sorted(path for path in Path(first).iterdir() if path.is_dir() and not path.is_symlink())
    named = {"DIRECTORIES": directories, "FIRST": [first], "PARTITION": [str(partitions[0])], "NEW": [str(new)]}
    wrong: list[object] = []
    for words in SWEEP:
        arguments = [argument for word in words for argument in named.get(word, [word])]
        for more in ((), ("--wide",), ("--format", "jsonl", "--no-header")):
            code = run(*arguments, *more)
            wrong += [(words, more, line) for line in hostile.controls_in(run.out + run.err)]
            wrong += [(words, more, run.err)] * (code == 2 or "an error in kdump itself" in run.err)
            for path in hostile.paths_of_commands(f"{run.out}\n{run.err}") if "jsonl" not in more else ():
                if not path.startswith("OTHER/") and not os.path.lexists(path):
                    wrong.append((words, more, path))
    assert not wrong


def test_names_drive_neither_terminal_nor_shell(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _swept(run, hostile.build(tmp_path, FEW_FAULTS), tmp_path / "new")


@pytest.mark.slow
def test_names_drive_nothing_whatever_is_damaged(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _swept(run, hostile.build(tmp_path), tmp_path / "new")


def test_what_is_written_for_the_user_has_no_rights_that_the_directory_has_not(tmp_path: Path, run: Run) -> None:
    write_partition(tmp_path / "data" / "orders-0", segments=2)
    (tmp_path / "data").chmod(0o700)
    (tmp_path / "report.sarif").touch(mode=0o666)  # one that is there keeps no more
    partition = tmp_path / "data" / "orders-0"
    run("verify", partition, "--report", f"sarif:{tmp_path / 'report.sarif'}", "--state", tmp_path / "state")
    run("stats", partition, "--report", tmp_path / "stats.html")
    run("repair", partition, "--unclean", "--plan-out", tmp_path / "plan.json")
    for name in ("report.sarif", "state", "stats.html", "plan.json"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600, name


@given(st.text())
def test_json_means_the_same_when_escaped(text: str) -> None:
    escaped = escape_json(json.dumps([text], ensure_ascii=False))
    assert json.loads(escaped) == [text]
    assert not UNSAFE.search(escaped)


@given(st.text())
def test_is_unsafe(text: str) -> None:
    assert is_unsafe(text) == bool(UNSAFE.search(text))


@given(st.integers(-62135596800000, 253402300799999))
def test_iso_time(ms: int) -> None:
    moment = EPOCH + timedelta(milliseconds=ms)
    assert iso_time(ms) == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert filters.time_ms(iso_time(ms)) == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (253402300800000, "+10000-01-01T00:00:00.000Z"),
        ((1 << 63) - 1, "+292278994-08-17T07:12:55.807Z"),
        (-(1 << 63), "-292275055-05-16T16:47:04.192Z"),
        (-62135596800001, "0000-12-31T23:59:59.999Z"),
    ],
)
def test_iso_time_beyond_the_calendar(ms: int, text: str) -> None:
    assert iso_time(ms) == text


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("-1", -1),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14 22:13:20Z", 1_700_000_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
        ("2023-11-14T22:13:20.0001", 1_700_000_000_001),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert filters.time_ms(text) == ms


@pytest.mark.parametrize("text", ["", "now", "2023-13-01", "1e3", "12:00", "99999999999999999999"])
def test_no_times(text: str) -> None:
    with pytest.raises(ValueError, match="neither a number of milliseconds"):
        filters.time_ms(text)


@pytest.mark.parametrize(
    ("text", "bounds"),
    [("5:9", (5, 9)), ("5:", (5, None)), (":9", (None, 9)), ("7", (7, 8)), ("9223372036854775807", (2**63 - 1, 2**63))],
)
def test_offset_ranges(text: str, bounds: tuple[int | None, int | None]) -> None:
    assert filters.offset_range(text) == bounds


@pytest.mark.parametrize("text", ["", ":", "a", "5:5", "-1:", ":0", "1:2:3", "٣", "9223372036854775808"])
def test_no_offset_ranges(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected A-B|is empty|offset"):
        filters.offset_range(text)


@pytest.mark.parametrize(
    ("text", "content", "fits"),
    [
        ("abc", b"abc", True),
        ("abc", b"abcd", False),
        ("", b"", True),
        ("ü", "ü".encode(), True),
        ("hex:00fF", b"\0\xff", True),
        ("hex:0x00ff", b"\0\xff", True),
        ("base64:AP8=", b"\0\xff", True),
        ("re:^a.c$", b"abc", True),
        ("re:b", b"abc", True),
        ("re:^b", b"abc", False),
        ("re:", b"\xff", True),
        ("text:hex:00", b"hex:00", True),
        ("other:x", b"other:x", True),
    ],
)
def test_contents(text: str, content: bytes, fits: bool) -> None:
    assert filters.content(text)(content) is fits
    assert filters.content(text)(bytearray(content)) is fits


def test_headers() -> None:
    assert filters.header("name") == (b"name", None)
    name, test = filters.header("näme=a=b")
    assert name == "näme".encode()
    assert test is not None
    assert test(b"a=b")
    assert not test(b"a")


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("1024", 1024), ("2k", 2048), ("1M", 1 << 20), ("3GiB", 3 << 30), (" 1tb", 1 << 40)]
)
def test_sizes(text: str, size: int) -> None:
    assert filters.size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5M", "k", "1kk"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        filters.size(text)


def test_size_text() -> None:
    sizes = [0, 1, 1536, 9999, 10_000, (1 << 20) - 1, 1 << 20, 5 << 30, 1 << 50]
    shown = ["0 bytes", "1 byte", "1536 bytes", "9999 bytes", "9.8 KiB", "1.0 MiB", "1.0 MiB", "5.0 GiB", "1024.0 TiB"]
    assert [size_text(size) for size in sizes] == shown


def test_style() -> None:
    assert Style(False, "red", bold=True)("x") == "x"
    assert displayed(Style(True, "red", bold=True)("x\x1b[5m")) == "\x1b[31m\x1b[1mx\\x1b[5m\x1b[0m"


def test_an_error_of_kdump_itself_is_one_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("kdump.commands.ls.command.Inventory", broken)
    assert run("ls", tmp_path) == 3
    assert run.err.startswith("kdump: an error in kdump itself: ZeroDivisionError: division by zero (kdump.")
    assert f"and the command line: kdump ls {tmp_path}" in run.err
    monkeypatch.setenv("KDUMP_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run("ls", tmp_path)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_that_are_closed(tmp_path: Path, closed: str) -> None:
    """A file of Kafka's does not get the number of standard output or of standard error."""
    (tmp_path / "orders-0").mkdir()
    script = f'exec "$1" -m kdump stats "$2" {closed}'
    done = subprocess.run(["sh", "-c", script, "sh", sys.executable, tmp_path / "orders-0"], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_on_a_full_disk() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "kdump", "--help"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert done.stderr == b"kdump: cannot write to standard output: No space left on device\n"


def test_a_time_may_be_so_long_ago() -> None:
    now = time.time_ns() // 1_000_000
    assert now - 900_000 <= filters.time_ms("-15m") <= now - 900_000 + 60_000
    assert filters.time_ms("-2") == -2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("state.json", ("verify", "--state", "state.json")),
        ("found.xml", ("verify", "--report", "junit:found.xml")),
        ("plan.json", ("repair", "--unclean", "--plan-out", "plan.json")),
        ("page.html", ("stats", "--report", "page.html")),
    ],
)
def test_nothing_beside_a_file_that_is_asked_for_is_written_over(
    name: str, words: tuple[str, ...], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_partition(tmp_path / "data" / "t-0", segments=1, batches=2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.tmp").write_text("mine")
    (tmp_path / name).write_bytes(b"")
    (tmp_path / name).chmod(0o640)
    if name == "state.json":
        (tmp_path / name).unlink()
    command, *options = words
    assert run(command, "data/t-0", *options) in (0, 1)
    assert (tmp_path / f"{name}.tmp").read_text() == "mine"
    assert (tmp_path / name).stat().st_size > 0
    assert name == "state.json" or (tmp_path / name).stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", name, f"{name}.tmp"]
