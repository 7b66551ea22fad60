"""What an export loads: pandas, half a second of CPU, comes with some calls of pyarrow's where it is installed, and
pyarrow.compute with others.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from kdump.columns.arrays import strings
from tests.commands.logs import write_partition

TRANSACTIONAL = Path(__file__).parents[2] / "fixtures" / "corpus" / "s-src-txn"
EXPORT = """
import sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            print("asked for pandas")
sys.meta_path.insert(0, Watch())
from kdump.commands.cli import main
sys.argv[1:1] = ["export"]
main()
"""
LOADED = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from kdump.commands.cli import main
sys.argv[1:1] = ["export"]
main()
"""


@pytest.mark.parametrize(
    "options", [[], ["--by", "date"], ["--format", "jsonl"], ["--isolation", "read_committed"]], ids=" ".join
)
def test_an_export_does_not_load_pandas(options: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", EXPORT, str(TRANSACTIONAL), "--to", str(tmp_path / "out"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "asked for pandas" in done.stdout) == (0, False), done.stderr


def test_an_export_of_plain_records_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    plain = write_partition(tmp_path / "t-0", segments=1, batches=2)
    command = [sys.executable, "-c", LOADED, str(plain), "--to", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "pyarrow.parquet" in loaded
    assert loaded & {"kdump.txns.partition", "pyarrow.compute"} == set()


@pytest.mark.parametrize("values", [[], ["a"], [""], ["ä", "", "x" * 300, *("b" for _ in range(9))]])
def test_a_column_of_texts(values: list[str]) -> None:
    made = strings(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.string()))
