"""The options that every command has are those of one table, and do the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kdump.commands.cli import COMMANDS, cli
from kdump.commands.shell.options import (
    COMMON,
    NO_PATHS,
    NO_REPORT,
    OF_A_CLUSTER,
    OF_ONE_PARTITION,
    partition_numbers,
)
from tests.agreement.running import kdump

SPECS = Path(__file__).resolve().parents[1] / "transcripts" / "specs"
SHORT = {"-h", "-V", "-q", "-v", "-o", "-n"}


def commands() -> Iterator[tuple[str, click.Command]]:
    root = click.Context(cli, info_name="kdump")
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in command.commands.items())
        else:
            yield name, command


ALL = dict(commands())
TAKES_PARTITION = next(applies for option, applies, _ in COMMON if option == "--partition")


@pytest.mark.parametrize("name", ALL)
def test_a_command_has_the_options_of_the_table(name: str) -> None:
    known = {each for param in ALL[name].params for each in param.opts}
    for option, applies, _ in COMMON:
        assert (option in known) == applies(name), option


@pytest.mark.parametrize("name", ALL)
def test_an_option_is_one_thing_everywhere(name: str) -> None:
    """Those that some commands define with their own words have the same kind of value in all."""
    for param in ALL[name].params:
        if not isinstance(param, click.Option):
            continue
        assert {each for each in param.opts if len(each) == 2} <= SHORT, param.opts
        long = param.opts[-1]
        if long == "--now":
            assert param.metavar == "TIME"
        if long == "--topic":
            assert (param.metavar, param.multiple) == ("GLOB", True)
        if long == "--format" and name not in ("append", "export"):
            assert param.opts == ["-o", "--format"]
            assert isinstance(param.type, click.Choice)
            assert list(param.type.choices)[:3] == ["text", "json", "jsonl"]
        if long == "--limit":
            assert param.opts == ["-n", "--limit"]
        if long == "--fail-on":
            assert isinstance(param.type, click.Choice)
            assert list(param.type.choices) == ["error", "warning", "never"]
        if long == "--max-duration":
            assert param.metavar == "TIME"
        if long in ("--max-rate", "--max-decompressed-size"):
            assert param.metavar == "SIZE"
        if long == "--verbose":
            assert isinstance(param, click.Option)
            assert param.count


def test_the_exceptions_are_commands() -> None:
    assert {*NO_PATHS, *NO_REPORT, *OF_A_CLUSTER, *OF_ONE_PARTITION} <= set(ALL)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    assert kdump(folder, "fixture", "build", SPECS / "four.yaml", "data").code == 0
    return folder


ON_PATHS = {
    "dump": ("--limit", "1"), "lookup": ("--offset", "0"), "ls": (), "stats": (), "txns": (), "doctor": (),
    "verify": (), "startup": (), "replicas": (), "retain": (), "compact": (), "repair": (), "rebuild-index": (),
    "trim": (), "undo": (),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_PATHS)
def test_topic_and_partition_choose(name: str, home: Path) -> None:
    said = kdump(home, name, "data", *ON_PATHS[name], "--topic", "ord*", "--partition", "3-4,9", "-v", "-o", "jsonl")
    assert said.code in (0, 1), said.err
    text = said.out.partition("\n")[2] + said.err
    assert "clicks" not in text
    assert "orders-5" not in text
    if name not in ("undo", "rebuild-index", "verify", "doctor"):  # which have nothing to say of them
        assert "orders-3" in text or '"partition":3' in text.replace(" ", "")


@pytest.mark.parametrize("name", [name for name in ALL if TAKES_PARTITION(name)])
def test_what_chooses_no_partition_is_no_success(name: str, home: Path) -> None:
    more = {"lookup": ("--offset", "0"), "export": ("--to", "out"), "metadata": ("--topic", "none")}.get(name, ())
    said = kdump(home, name, "data", *more, "--topic", "no-such-topic")
    assert said.code in (2, 3), (said.code, said.out)
    assert said.err


@pytest.mark.parametrize("texts", [["1-x"], [""], ["-1"], ["1,,2"]])
def test_what_is_no_number_is_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="expected numbers and ranges"):
        partition_numbers(texts)


def test_quiet_prints_findings_or_nothing(home: Path) -> None:
    assert kdump(home, "verify", "data", "--topic", "users", "-q").out == ""
    assert "KD-LOG-CRC" in kdump(home, "verify", "data", "--topic", "orders", "-q").out
    assert kdump(home, "doctor", "data", "--topic", "users", "-q").out == ""
    assert "orders-7" in kdump(home, "doctor", "data", "-q").out


def test_quiet_leaves_out_notes(home: Path) -> None:
    loud = kdump(home, "groups", "data")
    assert loud.err
    (home / "empty").mkdir(exist_ok=True)
    assert "is empty" in kdump(home, "replicas", "data", "empty").err
    assert kdump(home, "replicas", "data", "empty", "-q").err == ""


def test_severities_that_are_shown(home: Path) -> None:
    def shown(*options: str) -> set[str]:
        return {row["severity"] for row in kdump(home, "verify", "data", "-o", "jsonl", *options).of_type("finding")}

    assert shown() == {"error", "warning"}
    assert shown("--min-severity", "error") == {"error"}
    assert shown("--min-severity", "note") == {"error", "warning", "note"} == shown("-v")
    text = kdump(home, "verify", "data", "--min-severity", "error").out
    assert "KD-LOG-BEYOND" not in text
    assert "KD-LOG-CRC" in text


@pytest.mark.parametrize("name", ["doctor", "verify", "startup", "repair", "stats"])
def test_never_is_never(name: str, home: Path) -> None:
    assert kdump(home, name, "data").code == 1
    said = kdump(home, name, "data", "--fail-on", "never", "-o", "json")
    assert (said.code, json.loads(said.out)["summary"]["exitCode"]) == (0, 0)


def test_doctor_fails_by_severity(home: Path) -> None:
    hanging = ("doctor", "data", "--topic", "payments", "--now", "2026-12-20")
    assert kdump(home, *hanging).code == 1
    assert kdump(home, *hanging, "--fail-on", "warning").code == 1
    assert kdump(home, *hanging, "--fail-on", "error").code == 0
    assert kdump(home, "doctor", "data", "--fail-on", "error").code == 1


def test_times_as_numbers(home: Path) -> None:
    path = "data/orders-3"
    for name, more in (("ls", ()), ("dump", ("-n", "1")), ("lookup", ("--timestamp", "max")), ("stats", ())):
        assert "2026-11-20" in kdump(home, name, path, *more).out, name
        printed = kdump(home, name, path, *more, "--times", "ms").out
        assert "2026-11-20" not in printed, name
        assert "17951406" in printed, name


def test_ages_since_a_while_ago(home: Path) -> None:
    for name in ("verify", "doctor", "startup", "txns"):
        assert kdump(home, name, "data/orders-3", "--now", "-15m").code in (0, 1)
    assert "ISO 8601" in kdump(home, "verify", "data", "--now", "soon").err


def test_help_says_where_the_other_options_are(home: Path) -> None:
    short, long = kdump(home, "verify", "--help").out, kdump(home, "verify", "--help", "--all").out
    assert "--help --all" in short
    assert short.count("\n") < 30 < long.count("\n")
    assert short.count("  kdump verify ") == 3
    assert "Exit codes" in short
    assert "--max-duration" in short
    assert "--no-pager  " not in short
    assert kdump(home, "help", "verify").out == short
    assert kdump(home, "help", "verify", "--all").out == long
    assert "--no-pager  " in long
    assert "--min-severity" in long


def test_without_a_command_there_is_the_help(home: Path) -> None:
    said = kdump(home)
    assert (said.code, said.out) == (2, "")
    assert said.err == kdump(home, "--help").out


def test_a_missing_word_is_a_line(home: Path) -> None:
    said = kdump(home, "completion")
    assert said.code == 2
    first, second = said.err.splitlines()
    assert first == "kdump completion: Missing argument 'SHELL'. Choose from: bash, zsh, fish"
    assert second == "Help: kdump completion --help"


def test_options_may_stand_before_paths(home: Path) -> None:
    before = kdump(home, "ls", "--topic", "users", "data").out
    assert before == kdump(home, "ls", "data", "--topic", "users").out
    assert "users-3" in before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("help", "verfy"), "Did you mean 'verify'?"), (("help", "quorum", "shw"), "Did you mean 'show'?"),
        (("verfy", "data"), "Did you mean 'verify'?"), (("fsck", "data"), "Its name is 'verify'"),
        (("explain", "KD-LOG-CRX"), "Did you mean 'KD-LOG-CRC'?"),
        (("help", "KD-LOG-CRX"), "Did you mean 'KD-LOG-CRC'?"),
        (("verify", "data", "--formt", "json"), "Did you mean '--format'?"),
        (("verify", "data", "--select", "KD-LOG-CRX"), "Did you mean 'KD-LOG-CRC'?"),
        (("ls", "data", "--topic", "order"), "Did you mean 'orders'?"),
        (("verify", "data", "--topic", "clickz"), "Did you mean 'clicks'?"),
        (("lookup", "data", "--offset", "0", "--topic", "user"), "Did you mean 'users'?"),
        (("help", "nonsense"), "'kdump help' lists the commands."),
        (("help", "fsck"), "unknown command 'fsck'. Its name is 'verify': kdump verify --help"),
    ],
)  # fmt: skip
def test_what_was_meant_is_named(arguments: tuple[str, ...], text: str, home: Path) -> None:
    said = kdump(home, *arguments)
    assert said.code in (2, 3)
    assert text in said.err


def _two_values(param: click.Option) -> tuple[str, str] | None:
    """Two words for an option, with different values."""
    if param.secondary_opts:
        return param.opts[-1], param.secondary_opts[-1]
    if param.is_flag or param.count or param.multiple or param.nargs != 1:
        return None
    kind = param.type
    values = kind.choices[:2] if isinstance(kind, click.Choice) else ("1", "2")
    return (f"{param.opts[-1]}={values[0]}", f"{param.opts[-1]}={values[1]}") if len(values) > 1 else None


@pytest.mark.parametrize("name", ALL)
def test_an_option_of_one_value_is_not_given_two(name: str) -> None:
    command = ALL[name]
    options = [param for param in command.params if isinstance(param, click.Option)]
    for words in filter(None, map(_two_values, options)):
        with pytest.raises(click.BadOptionUsage) as refused:
            command.make_context(name, [*words])
        assert "give one of them" in refused.value.message
        parser = command.make_parser(click.Context(command, info_name=name))
        assert parser.parse_args(args=[words[1], words[1]])[0] == parser.parse_args(args=[words[1]])[0]


def test_what_is_said_of_two_values(tmp_path: Path) -> None:
    done = kdump(tmp_path, "ls", "-o", "text", "--format=jsonl", tmp_path)
    assert done.code == 2
    assert "kdump ls: --format takes one value, and is given 'text' and 'jsonl': give one of them" in done.err
    done = kdump(tmp_path, "retain", "--segments", "--no-segments", tmp_path)
    assert done.code == 2
    assert "--segments and --no-segments contradict each other" in done.err
    assert "contradict" not in kdump(tmp_path, "ls", "-q", "-q", "--topic=a", "--topic=b", tmp_path).err


@pytest.mark.parametrize("name", ["repair", "quorum"])
def test_the_help_option_is_the_same_whoever_asks_first(name: str) -> None:
    """Click keeps the help option that a command had in its first call, in a context of any making."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    alone = command.get_help_option(command.make_context(name, [], resilient_parsing=True))
    assert alone is not None
    assert alone.opts == ["-h", "--help"]
