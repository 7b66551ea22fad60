"""The catalogue of findings: what it advises exists, loses nothing before what loses something, and is said in full."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import click
import pytest

from kdump.commands.cli import COMMANDS, SHARED_PACKAGES, cli
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.filter import FindingFilter
from kdump.findings.kind import NOTHING, Remedy

REMEDIES = sorted({remedy for kind in CATALOGUE.values() for remedy in kind.remedies}, key=str)


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda remedy: remedy.text[:40])
def test_every_command_that_is_advised_exists(
    remedy: Remedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if remedy.command is None:
        assert remedy.note
        return
    (tmp_path / "OTHER").mkdir()
    monkeypatch.chdir(tmp_path)
    name = remedy.command
    assert name in COMMANDS
    package = SHARED_PACKAGES.get(name, f"{name}.command")
    command: click.Command = importlib.import_module(f"kdump.commands.{package}").command
    group = click.Context(cli, info_name="kdump", **cli.context_settings)
    # raises UsageError for what it has not
    context = command.make_context(name, [str(tmp_path), *remedy.arguments], parent=group)
    assert not context.args


def test_what_loses_nothing_comes_first() -> None:
    for kind in CATALOGUE.values():
        losing = [remedy.loses != NOTHING for remedy in kind.remedies]
        assert losing == sorted(losing), kind.code
        for remedy in kind.remedies[:1]:
            assert remedy.loses == NOTHING, kind.code
            assert "--strategy" not in remedy.arguments, kind.code
            assert not re.search(r"\b(rm|delete) (the|a) (file|directory|partition)\b", remedy.note), kind.code


def test_salvage_comes_after_the_other_replicas() -> None:
    salvaged = 0
    for kind in CATALOGUE.values():
        for number, remedy in enumerate(kind.remedies):
            if "salvage" in remedy.arguments:
                salvaged += 1
                assert "another in-sync replica" in kind.remedies[0].note
                assert number
                assert "only copy" in remedy.note
    assert salvaged > 10


def _module(checked_by: str) -> str:
    return f"kdump.{checked_by}" if "." in checked_by else f"kdump.check.{checked_by}"


def test_the_module_that_a_code_names_has_it() -> None:
    for kind in CATALOGUE.values():
        assert kind.code in inspect.getsource(importlib.import_module(_module(kind.checked_by)))


def test_the_words_of_a_remedy() -> None:
    remedy = Remedy("repair", ("--strategy", "salvage"), "if so", "the damaged batch")
    assert remedy.words("/data/orders-0") == ("kdump", "repair", "/data/orders-0", "--strategy", "salvage")
    assert remedy.text == "kdump repair PATH --strategy salvage: if so (loses the damaged batch)"
    assert Remedy("trim", (), "").text == "kdump trim PATH (loses nothing)"
    assert Remedy(None, (), "wait").text == "wait (loses nothing)"


def test_a_filter_that_nothing_fits_is_refused() -> None:
    FindingFilter(select=("KD-LOG-*",), ignore=("KD-TIME-*",), severities=(("KD-*", "note"),)).check()
    with pytest.raises(ValueError, match="Did you mean 'KD-LOG-CRC'"):
        FindingFilter(select=("KD-LOG-CRX",)).check()
    with pytest.raises(ValueError, match="is not a severity"):
        FindingFilter(severities=(("KD-LOG-CRC", "grave"),)).check()
