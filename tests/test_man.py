"""The man pages are current, and what a docstring says reaches the reader unchanged."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from man import generate

VERSION = "0.0"


def page(command: click.Command) -> str:
    return generate.render(next(generate.click_pages(command, None, "kdump")), VERSION)


def shown(source: str, tmp_path: Path) -> str:
    """What a reader sees of a page, and no warning of the formatter's."""
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    assert "\n\n" not in source
    path = tmp_path / "page.1"
    path.write_text(source, encoding="ascii")
    command = ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=100n", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stderr == ""
    return done.stdout


@click.command(no_args_is_help=True)
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--form", type=click.Choice(["text", "csv"]), default="text", show_default=True, help="How it's printed.")
@click.option("-n", "--limit", metavar="N", help="No more than N; '.' and \\n are not special.")
@click.option("--colour/--no-colour", help="Paint.")
@click.option("--secret", hidden=True)
def sample(**_: object) -> None:
    """Print batches. And records.

    .a line that looks like a request, 'quoted',
    with a back\\slash, a ~ and a ^ and a `tick` \N{RIGHTWARDS ARROW}.

    \b
    kept   as
      they are

    \b
    Examples:
      kdump --form=csv 'a b'

    Exit codes: 0 sound,
    1 not.
    """


def test_pages_are_current() -> None:
    """In a process of its own: click keeps a command's help option as the first context made it."""
    done = subprocess.run([sys.executable, generate.__file__, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run ./dev man: {done.stdout}{done.stderr}"


def test_every_page_formats_without_a_warning(tmp_path: Path) -> None:
    for source in generate.pages().values():
        assert "SYNOPSIS" in shown(source, tmp_path)


def test_text_reaches_the_reader_unchanged(tmp_path: Path) -> None:
    text = shown(page(sample), tmp_path)
    assert "kdump - Print batches\n" in text
    assert "kdump [OPTIONS] PATH..." in text
    assert ".a line that looks like a request, 'quoted', with a back\\slash, a ~ and a ^ and a `tick` →." in text
    assert "           kept   as\n             they are\n" in text
    assert "EXAMPLES\n           kdump --form=csv 'a b'\n" in text
    assert "EXIT STATUS\n       0 sound, 1 not.\n" in text
    assert "--form [text|csv]\n              How it's printed. [default: text]\n" in text
    assert "-n, --limit N\n              No more than N; '.' and \\n are not special.\n" in text
    assert "--colour / --no-colour\n" in text
    assert "secret" not in text


def test_fonts_of_an_option() -> None:
    assert generate.option_heading("-n, --limit N") == r"\fB\-n\fR, \fB\-\-limit\fR \fIN\fR"


def test_every_command_has_a_page() -> None:
    group = click.Group("kdump", commands={"one-more": sample, "two": click.Command("two", hidden=True)})
    names = [found.name for found in generate.click_pages(group, None, "kdump")]
    assert names == ["kdump", "kdump-one-more"]
    assert r"\fBkdump\-one\-more\fR(1)" in page(group)


def test_stale_names_what_is_missing_changed_or_left_over(tmp_path: Path) -> None:
    for name in ("same", "changed", "left-over"):
        (tmp_path / f"{name}.1").write_text("old")
    wanted = {"same.1": "old", "changed.1": "new", "missing.1": "new"}
    assert generate.stale(wanted, tmp_path) == ["changed.1", "left-over.1", "missing.1"]
