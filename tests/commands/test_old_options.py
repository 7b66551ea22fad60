"""Old names of options still work, and say what they are called now."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kdump.commands.cli import cli
from kdump.commands.shell.old_options import OLD_OPTIONS, with_new_names
from tests.agreement.running import kdump

SPECS = Path(__file__).resolve().parents[1] / "transcripts" / "specs"


@pytest.mark.parametrize("command", OLD_OPTIONS)
def test_new_names_exist_and_old_ones_do_not(command: str) -> None:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    known = {option for param in found.params for option in (*param.opts, *param.secondary_opts)}
    for old, new in OLD_OPTIONS[command].items():
        assert old not in known
        assert new[0] in known


def test_an_old_name_does_what_the_new_one_does(tmp_path: Path) -> None:
    kdump(tmp_path, "fixture", "build", SPECS / "killed.yaml", "data")
    words = "verify", "data", "--now", 1769947200000, "--format", "jsonl"
    old = kdump(tmp_path, *words, "--strict", "--most-alike=3")
    new = kdump(tmp_path, *words, "--fail-on", "warning", "--max-per-code=3")
    assert old.code == new.code == 1
    assert old.of_type("finding") == new.of_type("finding")
    assert "--strict is called --fail-on warning now" in old.err
    assert new.err == ""
    assert kdump(tmp_path, "verify", "data", "--fail-on", "never").code == 0


def test_what_is_no_option_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert with_new_names("verify", ["a", "--", "--strict"]) == ["a", "--", "--strict"]
    assert with_new_names("ls", ["--strict"]) == ["--strict"]
    assert capsys.readouterr().err == ""
