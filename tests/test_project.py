"""The project agrees with itself: version, packages, documents, and a build with and without a C compiler."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import kdump

ROOT = Path(__file__).resolve().parent.parent


def test_version_is_one() -> None:
    assert importlib.metadata.version("kafka-kdump") == kdump.__version__


def links_of(page: Path) -> Iterator[tuple[Path, str]]:
    """The files and anchors that a page of the project links to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for path, anchor in links_of(page):
            assert path.exists(), f"{page}: {path}"
            assert not anchor or anchor in anchors_of(path), f"{page}: {path}#{anchor}"


def test_the_index_leads_to_every_page_and_names_every_command() -> None:
    index = ROOT / "docs" / "README.md"
    reached, ahead = set(), [index]
    while ahead:
        page = ahead.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            ahead += [path for path, _ in links_of(page)]
    assert set(PAGES) - {ROOT / "README.md"} <= reached
    from kdump.commands.cli import cli

    commands = [f"kdump {name}" for name in cli.list_commands(click.Context(cli))]
    assert [name for name in [*commands, "dump-log"] if name not in index.read_text(encoding="utf-8")] == []


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.*?)\]", text, re.MULTILINE)[0] == kdump.__version__


def importers_of_commands(folder: str) -> set[str]:
    """Modules that import kdump.commands, or something in it, by that name."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{name}" for name in names]
            if any(f"{name}.".startswith("kdump.commands.") for name in names):
                found.add(path.relative_to(ROOT).as_posix())
    return found


def test_only_python_m_kdump_reaches_from_the_core_into_the_commands() -> None:
    assert importers_of_commands("kdump") == {"kdump/__main__.py"}


def test_commands_import_each_other_relatively() -> None:
    """In the tree kdump.commands is commands/: by its installed name mypy and import-linter could not follow it."""
    assert importers_of_commands("commands") == set()


def test_every_folder_of_modules_is_a_package() -> None:
    """A folder without __init__.py would work in the source tree and be missing from what is installed."""
    folders = {path.parent for top in ("kdump", "commands") for path in (ROOT / top).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def build(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the extension, as an installation does, into `folder`."""
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools", minversion="77")
    command = [sys.executable, "setup.py", "--quiet", "build_ext", f"--build-lib={folder}", f"--build-temp={folder}"]
    names = ("KDUMP_REQUIRE_NATIVE", "KDUMP_SKIP_NATIVE", "KDUMP_SANITIZE")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        command, cwd=ROOT, env=inherited | environment, capture_output=True, text=True, check=False
    )


def test_a_build_without_a_compiler_goes_on_without_the_kernel(tmp_path: Path) -> None:
    done = build(tmp_path, CC="false")
    assert done.returncode == 0, done.stderr
    assert "kdump.kernels._native" in done.stdout + done.stderr
    assert list(tmp_path.rglob("_native*.so")) == []


def test_a_build_that_requires_the_kernel_fails_without_a_compiler(tmp_path: Path) -> None:
    assert build(tmp_path, CC="false", KDUMP_REQUIRE_NATIVE="1").returncode != 0


def test_a_build_can_leave_the_kernel_out(tmp_path: Path) -> None:
    done = build(tmp_path, KDUMP_SKIP_NATIVE="1", KDUMP_REQUIRE_NATIVE="1")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("_native*")) == []


def test_the_architecture_page_names_every_package_with_its_floor() -> None:
    """The page and the contract name the same packages in the same order."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["name"] == "Data flows one way")
    is_there = {path.stem for path in (ROOT / "kdump").iterdir()}
    floors = [{name for name in layer.replace("|", " ").split() if name.strip("()") in is_there} for layer in layers]
    floors = [{name.strip("()") for name in floor} for floor in floors]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()]
    named = [{name.strip("` ") for name in row.split(",")} for row in rows[1:]]
    assert named == [floor for floor in floors if floor]
