"""What an export loads: numpy comes with pyarrow, and pandas with some of its calls, where they are installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdump.columns.arrays import strings
from tests.schemas.registries import ORDER, avro, framed, partition, schema_record
from tests.topics.building import Log

TRANSACTIONAL = Path(__file__).parents[2] / "fixtures" / "corpus" / "s-src-txn"
EXPORT = """
import sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "pandas"):
            print("asked for", name)
sys.meta_path.insert(0, Watch())
from kdump.commands.cli import main
sys.argv[1:1] = ["export"]
main()
"""


@pytest.mark.parametrize(
    "options", [[], ["--by", "date"], ["--format", "jsonl"], ["--isolation", "read_committed"]], ids=" ".join
)
def test_an_export_loads_neither_numpy_nor_pandas(options: list[str], tmp_path: Path) -> None:
    export(str(TRANSACTIONAL), "--to", str(tmp_path / "out"), *options)
    assert list((tmp_path / "out").rglob("part-*"))


def test_nor_does_one_that_decodes(tmp_path: Path) -> None:
    folder = partition(tmp_path, schema_record("x-value", 1, 1, ORDER))
    value = {"id": 7, "note": None}
    Log(tmp_path / "x-0").add((None, framed(1, avro(ORDER, value)))).write()
    export(str(tmp_path / "x-0"), "--schemas", str(folder), "--to", str(tmp_path / "out"))
    (file,) = (tmp_path / "out").glob("topic=x/*/*.parquet")
    assert pq.ParquetFile(file).read()["value"].to_pylist() == [value]


def export(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-c", EXPORT, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, "asked for" in done.stdout) == (0, False), done.stdout + done.stderr


@pytest.mark.parametrize("values", [[], ["a"], [None], ["ä", None, "", "x" * 300, *("b" for _ in range(9)), None]])
def test_a_column_of_texts(values: list[str | None]) -> None:
    made = strings(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.string()))
