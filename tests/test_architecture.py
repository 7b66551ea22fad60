"""One fact, one room: who opens, writes and locks files, and which packages know each other."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CHANGES = {
    "os": {
        *("replace", "rename", "renames", "remove", "unlink", "truncate", "ftruncate", "link", "symlink", "rmdir"),
        *("mkdir", "makedirs", "removedirs", "pwrite", "write", "fsync", "fdatasync", "chown", "fchown", "lchown"),
        *("chmod", "fchmod", "utime", "open", "sendfile", "posix_fallocate"),
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "copystat", "move", "rmtree"},
}
"""Calls by which a file, or what a directory says of it, is opened or changed."""

ROOMS = {
    "kdump/disk": "the only reader, writer and locker of files",
    "kdump/change": "plans and undoing: steps that a journal makes whole",
    "kdump/write": "the broker's append",
    "kdump/clean/apply.py": "cleaned segments take the place of others",
    "kdump/clean/staging.py": "cleaned segments that nobody knows yet",
    "kdump/export/journal.py": "what an export has finished",
    "kdump/export/object_store.py": "what is uploaded",
    "kdump/fixture": "log directories, and faults in them, made for tests",
    "kdump/operations/cluster.py": "new log directories for a resurrected cluster",
    "kdump/operations/lost_records.py": "a new directory for what was lost",
    "kdump/pytest_plugin.py": "log directories for the tests of others",
    "kdump/schemas/sources.py": "a file of records, read as a stream",
    "kdump/spark": "what an executor stages, and the driver commits",
    "kdump/storage/regions.py": "pipes to the processes that work on regions",
    "kdump/serve/channels.py": "bytes of segments, sent to a socket",
    "commands/cli.py": "/dev/null in place of a stdout that nobody reads",
    "commands/dump_log": "pipes to the processes that print regions, and stderr",
    "commands/shell/output.py": "/dev/null in place of a stdout that nobody reads",
    "commands/shell/whole_lines.py": "stdout",
    "commands/stats/run.py": "the file that --output names, beside which nothing may be written over",
}
"""Who opens or changes files, and what for; nobody else does."""


@cache
def modules() -> dict[str, ast.Module]:
    """All modules of kdump by path."""
    paths = [path for top in ("kdump", "commands") for path in sorted((ROOT / top).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def changes(tree: ast.Module) -> Iterator[int]:
    """The lines on which a module opens or changes a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            call = node.func
            if isinstance(call, ast.Name) and call.id == "open":
                yield node.lineno
            module = call.value.id if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name) else ""
            if isinstance(call, ast.Attribute) and call.attr in CHANGES.get(module, ()):
                yield node.lineno
        if isinstance(node, ast.ImportFrom) and CHANGES.get(node.module or "", set()) & {a.name for a in node.names}:
            yield node.lineno


def room_of(path: str) -> str | None:
    return next((room for room in ROOMS if path == room or path.startswith(f"{room}/")), None)


def test_only_rooms_that_are_known_for_it_open_or_change_files() -> None:
    found = {path: list(changes(tree)) for path, tree in modules().items()}
    strangers = [f"{path}:{line}" for path, lines in found.items() if room_of(path) is None for line in lines]
    assert strangers == []
    assert set(ROOMS) == {room_of(path) for path, lines in found.items() if lines}


def test_only_disk_locks_files() -> None:
    found = [
        path
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name in ("fcntl", "msvcrt")
    ]
    assert set(found) == {"kdump/disk/durable.py", "kdump/disk/locks.py"}


def test_the_check_sees_what_opens_and_changes() -> None:
    lines = ("import os, shutil", "from os import replace", "open('x')", "os.rename('a', 'b')", "shutil.rmtree('a')")
    source = "\n".join((*lines, "os.stat('a')"))
    assert sorted(changes(ast.parse(source))) == [2, 3, 4, 5]


@pytest.fixture(scope="module")
def contracts() -> list[dict[str, object]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, object]] = project["tool"]["importlinter"]["contracts"]
    return found


def test_every_package_has_a_floor_and_every_command_is_independent(contracts: list[dict[str, object]]) -> None:
    by_name = {each["name"]: each for each in contracts}
    assert by_name["Data flows one way"]["exhaustive"] is True
    packages = {f"commands.{path.parent.name}" for path in (ROOT / "commands").glob("*/__init__.py")}
    packages -= {"commands.shell", "commands.row_schemas"}  # what commands share
    assert set(by_name["Commands do not know each other"]["modules"]) == packages  # type: ignore[call-overload]
    known = by_name["What commands share knows none of them"]["forbidden_modules"]
    assert set(known) == packages  # type: ignore[call-overload]


def imports() -> dict[str, set[str]]:
    """What each module imports of kdump when it is imported, by dotted name."""
    paths = {path.removesuffix(".py").removesuffix("/__init__"): tree for path, tree in modules().items()}
    trees = {path.replace("/", "."): tree for path, tree in paths.items()}
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        found[name] = set()
        for node in _at_import(tree.body):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                of = {f"{node.module}.{alias.name}" for alias in node.names} & trees.keys()
                found[name] |= of or ({node.module} & trees.keys())
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names} & trees.keys()
        found[name].discard(name)
    return found


def _at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, but for those that only a type checker reads."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _at_import(node.body)


def test_no_modules_import_each_other_in_a_circle() -> None:
    todo = imports()
    while free := {name for name, wanted in todo.items() if not wanted & todo.keys()}:
        todo = {name: wanted for name, wanted in todo.items() if name not in free}
    assert todo == {}
