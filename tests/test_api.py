"""The library: `kdump.open_log`, `open_segment` and `open_directory`, and what can be iterated from there."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import kdump
from kdump.errors import KdumpError, NameFormatError
from kdump.storage.damage import Damage, DamageKind
from kdump.storage.decoded import BadBatch, DamagedError
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch, Record

CORPUS = Path(__file__).resolve().parent.parent / "fixtures" / "corpus"


def partition(case: str) -> PartitionLog:
    (folder,) = (path for path in (CORPUS / case).iterdir() if path.is_dir())
    return kdump.open_log(str(folder))


def records(log: PartitionLog, *bounds: int | None) -> list[Record]:
    return [item for item in log.records(*bounds) if isinstance(item, Record)]


def test_what_is_public() -> None:
    assert {"open_log", "open_segment", "open_directory", "__version__"} <= set(kdump.__all__)
    for name in kdump.__all__:
        assert getattr(kdump, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = kdump.nonsense


def test_type_checkers_see_what_is_public() -> None:
    tree = ast.parse(Path(kdump.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 0
        for alias in node.names
        if (node.module or "").startswith("kdump.")
    }
    assert {*seen, "__version__"} == set(kdump.__all__)
    for name, module in seen.items():
        assert getattr(kdump, name) is getattr(importlib.import_module(module or ""), name)


def test_importing_kdump_loads_nothing_of_it() -> None:
    program = "import sys, kdump; sys.exit(any(name.startswith('kdump.') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_no_module_takes_the_place_of_what_is_public() -> None:
    """Importing a module makes it an attribute of the package around it."""
    assert {module.name for module in pkgutil.iter_modules(kdump.__path__)} & set(kdump.__all__) == set()


@pytest.mark.parametrize(
    "case", ["s-src-none", "s-src-gzip", "s-src-lz4", "s-src-snappy", "s-src-zstd", "s-src-txn", "e-leader-epochs"]
)
def test_records_of_every_codec(case: str) -> None:
    log = partition(case)
    found = records(log)
    assert [record.offset for record in found] == list(range(len(found)))
    assert len(found) > 100
    batches = [item for item in log.batches() if isinstance(item, Batch)]
    assert sum(batch.record_count for batch in batches) == len(found)
    assert batches[-1].last_offset == found[-1].offset
    assert all(batch.valid and batch.magic == 2 for batch in batches)


@pytest.mark.parametrize("case", ["s-src-v0-lz4", "s-src-v1-gzip", "s-src-v1-snappy", "b-v0-lz4-gaps"])
def test_records_of_old_formats(case: str) -> None:
    log = partition(case)
    offsets = [record.offset for record in records(log)]
    assert offsets == sorted(set(offsets))
    batches = [item for item in log.batches() if isinstance(item, Batch)]
    assert batches[-1].last_offset == offsets[-1]
    assert {batch.timestamp_type for batch in batches} <= {"NoTimestampType", "CreateTime", "LogAppendTime"}
    assert all(record.headers == () for record in records(log))


def test_a_record_has_everything() -> None:
    found = records(partition("s-src-none"))
    assert {type(each) for record in found for each in (record.key, record.value)} == {bytes, type(None)}
    assert any(record.key is None for record in found)
    assert any(record.value is None for record in found)
    assert any(value is None for record in found for _, value in record.headers)
    assert any(len(record.headers) > len(dict(record.headers)) for record in found)
    assert min(record.timestamp for record in found) == 1_700_000_000_000


@pytest.mark.parametrize("case", ["s-src-gzip", "s-src-v0-lz4", "s-src-txn", "e-base-max", "g-plain-1-cleaned"])
def test_offset_bounds(case: str) -> None:
    log = partition(case)
    everything = records(log)
    first, last = everything[0].offset, everything[-1].offset
    for start, stop in ((first, first + 1), (first + 40, first + 90), (last, last + 1), (last - 60, None), (None, 50)):
        wanted = [
            record
            for record in everything
            if (start is None or record.offset >= start) and (stop is None or record.offset < stop)
        ]
        assert [record[:6] for record in records(log, start, stop)] == [record[:6] for record in wanted]
    assert records(log, last + 1) == []
    assert records(log, first, first) == []


def test_batch_bounds() -> None:
    log = partition("s-src-txn")
    everything = [item for item in log.batches() if isinstance(item, Batch)]
    found = [item for item in log.batches(200, 400) if isinstance(item, Batch)]
    assert found == [batch for batch in everything if batch.last_offset >= 200 and batch.base_offset < 400]
    assert found[0].base_offset <= 200 <= found[0].last_offset


def test_transactions_and_producers() -> None:
    batches = [item for item in partition("s-src-txn").batches() if isinstance(item, Batch)]
    control = [batch for batch in batches if batch.is_control]
    assert control
    assert all(batch.is_transactional and batch.record_count == 1 for batch in control)
    assert {batch.codec for batch in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert any(batch.producer_id >= 0 and batch.base_sequence >= 0 for batch in batches)


def test_damage_does_not_end_the_iteration() -> None:
    log = partition("i-zero-batch-mid-active")
    found = list(log.records())
    (damage,) = (item for item in found if isinstance(item, Damage))
    assert (damage.position, damage.text) == (1623, "Found record size 0 smaller than minimum record overhead (14)")
    offsets = [item.offset for item in found if isinstance(item, Record)]
    sound = [record.offset for record in records(partition("s-src-none"))]
    assert set(offsets) < set(sound)
    assert offsets[-1] == sound[-1]
    assert len(sound) - len(offsets) == 3


def test_what_becomes_of_damage_is_the_callers_choice() -> None:
    log = partition("i-zero-batch-mid-active")
    found = list(log.records())
    assert list(log.records(errors="skip")) == [item for item in found if isinstance(item, Record)]
    (damage,) = (item for item in log.batches() if isinstance(item, Damage))
    assert damage.kind is DamageKind.SIZE
    with pytest.raises(DamagedError, match="byte 1623: Found record size 0") as raised:
        list(log.batches(errors="raise"))
    assert raised.value.damage == damage
    with pytest.raises(ValueError, match="ignore"):
        log.records(errors="ignore")
    with pytest.raises(DamagedError, match="newLimit"):
        list(partition("i-v1-none-keylen").records(errors="raise"))


def test_a_batch_whose_records_break_off() -> None:
    found = list(partition("i-v1-none-keylen").records())
    (bad,) = (item for item in found if isinstance(item, BadBatch))
    assert isinstance(bad.error, KdumpError)
    assert isinstance(found[-1], Record)


def test_a_segment() -> None:
    path = CORPUS / "s-src-lz4" / "topic-0" / "00000000000000000072.log"
    segment = kdump.open_segment(str(path))
    assert segment.base_offset == 72
    offsets = [item.offset for item in segment.records() if isinstance(item, Record)]
    assert offsets == list(range(72, 147))
    assert [item.offset for item in segment.records(100, 103) if isinstance(item, Record)] == [100, 101, 102]
    with segment.open_log() as log:
        assert sum(block.length for block in log.blocks()) == len(list(segment.batches()))


def test_a_kraft_snapshot() -> None:
    path = CORPUS / "f-cluster-metadata" / "__cluster_metadata-0" / "00000000000000000212-0000000005.checkpoint"
    first, *_, last = kdump.open_segment(str(path)).batches()
    assert isinstance(first, Batch)
    assert isinstance(last, Batch)
    assert (first.base_offset, first.is_control, last.is_control) == (0, True, True)


def test_directories() -> None:
    directory = kdump.open_directory(str(CORPUS / "s-src-txn"))
    assert isinstance(directory, LogDirectory)
    (log,) = directory.partitions()
    assert log.name is not None
    assert (log.name.topic, log.name.partition) == ("topic", 0)
    assert isinstance(kdump.open_directory(log.path), PartitionLog)


def test_paths_that_are_something_else(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kdump.open_log(str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        kdump.open_segment(str(tmp_path / "00000000000000000000.log"))
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(NameFormatError):
        kdump.open_segment(str(tmp_path / "x.txt"))
    with pytest.raises(NameFormatError):
        kdump.open_directory(str(tmp_path))
