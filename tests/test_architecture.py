"""One fact, one room: who opens, writes and locks files, and which packages know each other."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

CHANGES = {
    "os": {
        *("replace", "rename", "renames", "remove", "unlink", "truncate", "ftruncate", "link", "symlink", "rmdir"),
        *("mkdir", "makedirs", "removedirs", "pwrite", "pwritev", "fsync", "fdatasync", "chown", "fchown", "lchown"),
        *("chmod", "fchmod", "utime", "open", "posix_fallocate", "mkfifo", "setxattr", "removexattr"),
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "copystat", "move", "rmtree"},
    "tempfile": {"mkstemp", "mkdtemp", "TemporaryDirectory", "TemporaryFile", "NamedTemporaryFile"},
    **{module: {"open"} for module in ("io", "gzip", "bz2", "lzma", "tarfile", "zipfile", "codecs")},
}
"""Calls by which a file, or what a directory says of it, is opened or changed."""
OF_PATHS = {"write_bytes", "read_bytes", "read_text", "touch", "hardlink_to", "symlink_to", "unlink", "rmdir", "chmod"}
"""The same as methods of Path; write_text is one of click's formatter too."""

STREAMS = {"os": {"write", "sendfile", "fdopen"}}
"""Calls by which bytes go to what is open already, be it a pipe or a stream."""
ROOM = "kdump/disk/"
"""Who opens or changes files; nobody else does."""
WITHOUT_FILES = {
    "kdump/dump_log_segments/regions.py": "stdout of several processes",
    "kdump/storage/regions.py": "pipes to the processes that work on regions",
    "commands/cli.py": "the standard streams, and stderr where memory has ended",
    "commands/dump_log/command.py": "stderr",
    "commands/shell/whole_lines.py": "stdout",
}
"""Who writes to descriptors that are no files of a directory, and to which."""


@cache
def modules() -> dict[str, ast.Module]:
    """All modules of kdump by path."""
    paths = [path for top in ("kdump", "commands") for path in sorted((ROOT / top).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def changes(tree: ast.Module, calls: Mapping[str, set[str]] = CHANGES) -> Iterator[int]:
    """The lines on which a module opens or changes a file, or hands such a function on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield node.lineno
        if isinstance(node, ast.Attribute):
            module = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in calls.get(module, ()) or (node.attr in OF_PATHS and calls is CHANGES):
                yield node.lineno
        if isinstance(node, ast.ImportFrom) and calls.get(node.module or "", set()) & {a.name for a in node.names}:
            yield node.lineno


def test_only_disk_opens_and_changes_files() -> None:
    found = {path: list(changes(tree)) for path, tree in modules().items() if not path.startswith(ROOM)}
    assert [f"{path}:{line}" for path, lines in found.items() for line in lines] == []


def test_what_is_open_is_written_to_by_disk_and_where_it_is_no_file() -> None:
    assert {path for path, tree in modules().items() if any(changes(tree, STREAMS))} - {
        path for path in modules() if path.startswith(ROOM)
    } == set(WITHOUT_FILES)


PRINTS = {
    "commands/cli.py": "the version, and that a run was interrupted",
    "commands/help/command.py": "helps",
    "commands/shell/engine.py": "how many tasks are done",
    "commands/shell/output.py": "all else, with controls escaped",
}
"""Who prints past `commands.shell.output`, and what: nothing else may, as names and records would drive terminals."""


def test_text_goes_out_where_it_is_escaped() -> None:
    found = {
        path
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and path.startswith("commands/") and _name(node.func) in ("print", "click.echo")
    }
    assert found == set(PRINTS)


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def test_only_disk_locks_files() -> None:
    found = [
        path
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name in ("fcntl", "msvcrt")
    ]
    assert set(found) == {"kdump/disk/copies.py", "kdump/disk/locks.py"}


def test_the_check_sees_what_opens_and_changes() -> None:
    lines = ("import os, shutil", "from os import replace", "open('x')", "os.rename('a', 'b')", "shutil.rmtree('a')")
    more = "tempfile.mkstemp()", "gzip.open('a')", "path.write_bytes(b)", "map(os.remove, names)"
    tree = ast.parse("\n".join((*lines, *more, "os.stat('a')", "os.write(1, b'')")))
    assert sorted(changes(tree)) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert list(changes(ast.parse("os.write(1, b'')"), STREAMS)) == [1]


@pytest.fixture(scope="module")
def contracts() -> list[dict[str, Any]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = project["tool"]["importlinter"]["contracts"]
    return found


def test_every_package_has_a_floor_and_every_command_is_independent(contracts: list[dict[str, Any]]) -> None:
    by_name = {each["name"]: each for each in contracts}
    assert by_name["Data flows one way"]["exhaustive"] is True
    packages = {f"commands.{path.parent.name}" for path in (ROOT / "commands").glob("*/__init__.py")}
    packages -= {"commands.shell", "commands.row_schemas"}  # what commands share
    assert set(by_name["Commands do not know each other"]["modules"]) == packages
    known = by_name["What commands share knows none of them"]["forbidden_modules"]
    assert set(known) == packages


FORMATS = {
    "text.py", "jsonl.py", "csv.py", "graph.py", "html.py", "svg.py", "junit.py", "prometheus.py", "sarif.py",
}  # fmt: skip
SECOND = {
    "append/roll.py": "kdump roll",
    "dump_log/options.py": "the options of Kafka's tool, which are not click's",
    "repair/rebuild_index.py": "kdump rebuild-index",
    "repair/trim.py": "kdump trim",
}
"""Other files of commands than the command and a format each: what they are. A second command, or a second screen."""


def test_a_command_is_a_file_of_options_and_one_a_format() -> None:
    shared = {ROOT / "commands" / name for name in ("shell", "row_schemas")}
    found = {path for path in (ROOT / "commands").glob("*/*.py") if path.parent not in shared}
    others = {path for path in found if path.name not in {"__init__.py", "command.py", *FORMATS}}
    assert {f"{path.parent.name}/{path.name}" for path in others} <= SECOND.keys()
    assert {path.parent for path in found} == {path.parent for path in found if path.name == "command.py"}


def imports() -> dict[str, set[str]]:
    """What each module imports of kdump, within functions too, by dotted name."""
    found: dict[str, set[str]] = {}
    trees = {_dotted(path): tree for path, tree in modules().items()}
    packages = {_dotted(path) for path in modules() if path.endswith("/__init__.py")}
    for name, tree in trees.items():
        found[name] = set()
        for node in _at_run_time(tree):
            if isinstance(node, ast.ImportFrom):
                above = name.split(".")[: (name in packages) - node.level or None] if node.level else []
                module = ".".join([*above, *([node.module] if node.module else [])])
                of = {f"{module}.{alias.name}" for alias in node.names} & trees.keys()
                found[name] |= of or ({module} & trees.keys())
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names} & trees.keys()
        found[name].discard(name)
    return found


def _dotted(path: str) -> str:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"kdump.{name}" if name.startswith("commands") else name


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node, but for what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from _at_run_time(child)


def test_no_modules_import_each_other_in_a_circle() -> None:
    todo = imports()
    while free := {name for name, wanted in todo.items() if not wanted & todo.keys()}:
        todo = {name: wanted for name, wanted in todo.items() if name not in free}
    assert todo == {}
