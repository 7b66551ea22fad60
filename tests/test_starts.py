"""What a command has no use for on a sound, plain partition is not even imported: it would cost at each start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.logs import write_partition

CODE = """
import sys
from kdump.commands.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sorted(sys.modules), file=sys.stderr)
"""
AT_THE_END = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 0))
from {package} import {module} as module
{before}
sys.exit(module.main())
"""
NEVER = {
    "kdump.formats.codecs.gzip",
    "kdump.formats.codecs.lz4",
    "kdump.formats.codecs.snappy",
    "kdump.formats.codecs.zstd",
    "concurrent.futures",
    "logging",
}
"""What takes long to import, or leads to what does: benchmarks/ measures the rest."""
COMMANDS = {
    "dump": {"json"},
    "lookup": {"json"},
    "ls": {"json"},
    "verify": {"json"},
    "startup": {"json"},
    "repair": set[str](),
}
"""Each command, and what besides NEVER it does without."""
OPTIONS = {"lookup": ["--offset", "0"], "startup": ["--clean"], "repair": ["--clean"]}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_start_imports_no_more_than_it_needs(command: str, tmp_path: Path) -> None:
    partition = write_partition(tmp_path / "t-0", segments=1, batches=2)
    words = [command, str(partition), *OPTIONS.get(command, ())]
    done = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "kdump.storage.log_reader" in loaded
    assert loaded & (NEVER | COMMANDS[command]) == set()


@pytest.mark.parametrize(
    ("module", "before", "words", "is_left_alone"),
    [
        ("cli", "", ["ls"], True),
        ("cli", "module.cli.main = lambda **_: (_ for _ in ()).throw(KeyboardInterrupt)", ["ls"], False),
        ("dump_log.command", "", ["--files"], True),
    ],
)
def test_what_is_left_is_not_searched_for_garbage_at_the_end(
    module: str, before: str, words: list[str], is_left_alone: bool, tmp_path: Path
) -> None:
    partition = write_partition(tmp_path / "t-0", segments=1, batches=2)
    path = partition if words == ["ls"] else next(partition.glob("*.log"))
    package, _, name = f"kdump.commands.{module}".rpartition(".")
    code = AT_THE_END.format(package=package, module=name, before=before)
    done = subprocess.run([sys.executable, "-c", code, *words, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == str(is_left_alone), done.stderr
