"""The function of `import kdump` that prints what Kafka's own dump tool prints."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from tests.commands import golden
from tests.commands.logs import write_partition
from tests.locked import open_files
from tests.test_library_operations import content


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return write_partition(tmp_path / "t-0", segments=1, batches=300, records=5)


def printed(*arguments: str) -> tuple[int, list[str], list[str]]:
    """Exit code and lines of the command."""
    done = golden.in_process_unasked(list(arguments))
    return done.code, done.out.decode().split("\n")[:-1], done.err.decode().split("\n")[:-1]


def test_the_lines_are_those_of_the_command(partition: Path) -> None:
    before = content(partition)
    files = sorted(path for path in partition.iterdir() if path.suffix in (".log", ".index", ".timeindex"))
    dumped = kdump.dump_log(*files, options=kdump.DumpLogOptions(print_data=True))
    lines = list(dumped)
    assert (dumped.exit_status, lines, list(dumped.stderr)) == printed(
        "--print-data-log", "--files", ",".join(map(str, files))
    )
    assert len(lines) > 1800
    assert dumped.error is None
    assert content(partition) == before


def test_damage_ends_the_lines_as_it_ends_the_tool(partition: Path) -> None:
    (path,) = partition.glob("*.log")
    damaged = bytearray(path.read_bytes())
    damaged[8:12] = bytes(4)
    path.write_bytes(damaged)
    dumped = kdump.dump_log(path)
    assert (0, list(dumped)) != (dumped.exit_status, [])
    assert dumped.error is not None
    assert dumped.error.java_class == "org.apache.kafka.common.errors.CorruptRecordException"
    assert dumped.stderr[0].startswith('Exception in thread "main" org.apache.kafka.common.errors.Corrupt')
    assert (dumped.exit_status, list(kdump.dump_log(path)), list(dumped.stderr)) == printed("--files", str(path))


def test_a_decoder_implies_that_data_is_printed(partition: Path) -> None:
    (path,) = partition.glob("*.log")
    options = kdump.DumpLogOptions(value_decoder="DefaultDecoder")
    assert any("payload: [B@" in line for line in kdump.dump_log(path, options=options, release="3.9"))


@pytest.mark.parametrize(
    "options",
    [
        {"value_decoder": "kafka.serializer.StringDecoder"},
        {"topic_decoder": "offsets"},
        {"max_bytes": 1 << 31},
        {"release": "3.9"},
        {"print_data": 1},
    ],
    ids=str,
)
def test_options_that_the_tool_has_not_are_refused_at_the_call(partition: Path, options: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        kdump.dump_log(partition / "x.log", options=kdump.DumpLogOptions(**options))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is empty: expected one path or more"):
        kdump.dump_log()
    with pytest.raises(TypeError, match="options is 3"):
        kdump.dump_log(partition / "x.log", options=3, release="4.0")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"release is 4\.0: expected str"):
        kdump.dump_log(partition / "x.log", release=4.0)  # type: ignore[arg-type]


def test_a_file_is_open_no_longer_than_its_lines_are_asked_for(partition: Path) -> None:
    (segment, *_) = sorted(partition.glob("*.log"))
    with kdump.dump_log(segment) as dumped:
        assert next(iter(dumped))
        assert str(segment) in open_files()
    assert str(segment) not in open_files()
    assert list(dumped) == []
