"""`kdump ls --graph`: the picture of a partition, and where it cannot be drawn."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from kdump.commands.ls.graph import MAX_ROWS, STYLES, picture
from kdump.formats import names
from kdump.formats.config_resources import BROKER_RESOURCE, TOPIC_RESOURCE
from kdump.operations.outline import outline, outline_of
from kdump.query.inventory import PartitionInfo, partition_info
from kdump.storage.checkpoints import PartitionCheckpoints
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import ClusterMetadata
from tests.commands.logs import write_partition, write_segment
from tests.commands.running import Run
from tests.retention.building import batch, checkpoint
from tests.topics.building import NOW, Log, metadata_pairs

YEAR_MS = 365 * 86_400_000
CORPUS = Path(__file__).resolve().parent.parent.parent / "fixtures" / "corpus"


@pytest.fixture
def keyed(tmp_path: Path) -> Path:
    """A partition of four segments of ten offsets each, cleaned up to offset 15, and a transaction open at 30."""
    log = Log(tmp_path / "data" / "keyed-0")
    for _ in range(3):
        log.add(*[(b"k", b"v")] * 10).roll()
    log.add(*[(b"k", b"v")] * 5, producer=(7, 0)).add(*[(b"k", b"v")] * 5).write()
    data = tmp_path / "data"
    checkpoint(data, names.LOG_START_CHECKPOINT, keyed=5)
    checkpoint(data, names.REPLICATION_CHECKPOINT, keyed=40)
    checkpoint(data, names.CLEANER_CHECKPOINT, keyed=15)
    return data / "keyed-0"


def drawn(info: PartitionInfo, columns: int = 120, *, plain: bool = True) -> list[str]:
    outlined = outline(PartitionLog(info.path), info, ClusterMetadata(), NOW)
    assert outlined is not None
    return [line.plain.rstrip() for line in picture(info, outlined, columns, plain=plain)]


def info_of(folder: Path, **checkpoints: int) -> PartitionInfo:
    return partition_info(PartitionLog(str(folder)), PartitionCheckpoints(**checkpoints))


def test_sections_and_offsets(run: Run, keyed: Path) -> None:
    assert run("ls", "--graph", keyed) == 0
    rows = [line for line in run.lines if re.match(r" +\d+  ", line)]
    assert [row.split()[0] for row in rows] == ["0", "10", "20", "30"]
    bars = [re.search(r"[·█▓▒░]+", row) for row in rows]
    signs = ["".join(dict.fromkeys(bar[0])) for bar in bars if bar]
    assert signs == ["·█", "█▓", "▓", "░"]
    ends = [(bar.start(), bar.end()) for bar in bars if bar]
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert bars[0] is not None
    assert bars[0][0].count("·") == pytest.approx(len(bars[0][0]) / 2, abs=1)
    for mark in (
        "log start 5",
        "first dirty 15",
        "first uncleanable (transaction), last stable 30",
        "high watermark, log end 40",
    ):
        assert any(line.rstrip(" ┤┘").endswith(mark) for line in run.lines), mark
    assert run.lines[-1].split("  ")[-4:] == [
        "· before the log start",
        "█ clean",
        "▓ dirty",
        "░ active segment",
    ]
    assert "BASE OFFSET" not in run.out
    assert "log start offset 5, log end offset 40" in run.out


def test_what_may_not_be_cleaned_yet_is_told_apart(tmp_path: Path, keyed: Path) -> None:
    lines = drawn(info_of(keyed, cleaner=10, high_watermark=25))
    assert [set(line.split()[1]) for line in lines[:4]] == [{"#"}, {"%"}, {"+"}, {"-"}]
    assert any("first uncleanable (high watermark) 20" in line for line in lines)
    assert any("last stable, high watermark 25" in line for line in lines)


@pytest.mark.parametrize(
    ("kind", "resource", "setting"),
    [(TOPIC_RESOURCE, "keyed", "min.compaction.lag.ms"), (BROKER_RESOURCE, "", "log.cleaner.min.compaction.lag.ms")],
)
def test_the_cleaner_goes_by_the_settings_of_the_topic(
    run: Run, keyed: Path, kind: int, resource: str, setting: str
) -> None:
    assert run("ls", "--graph", keyed) == 0
    before = run.out
    assert "first uncleanable (transaction), last stable 30" in before
    fields = {"resourceType": kind, "resourceName": resource, "name": setting, "value": str(200 * YEAR_MS)}
    Log(keyed.parent / names.CLUSTER_METADATA_DIR).add(*metadata_pairs(("Config", fields))).write()
    assert run("ls", "--graph", keyed) == 0
    assert any(line.rstrip(" ┤┘").endswith("first uncleanable (min.compaction.lag.ms) 10") for line in run.lines)
    assert "last stable 30" in run.out
    assert "▒ dirty, not to be cleaned yet" in run.lines[-1]
    assert "▓" not in run.out
    assert run("ls", "--graph", "--no-metadata", keyed) == 0
    assert run.out == before


def test_without_a_cleaner_all_closed_segments_look_alike(keyed: Path) -> None:
    lines = drawn(info_of(keyed))
    assert [set(line.split()[1]) for line in lines[:4]] == [{"#"}, {"#"}, {"#"}, {"-"}]
    assert not any("dirty" in line for line in lines)


def test_without_what_the_cleaner_knows_the_rest_is_drawn(keyed: Path) -> None:
    info = info_of(keyed, high_watermark=40)
    lines = [line.plain for line in picture(info, outline_of(info, None), 100)]
    assert not any("last stable" in line for line in lines)
    assert any("high watermark, log end 40" in line for line in lines)


@pytest.mark.parametrize("columns", [1, 40, 80, 200])
def test_pointers_stand_below_what_they_point_at(keyed: Path, columns: int) -> None:
    lines = drawn(info_of(keyed, cleaner=15, high_watermark=40, recovery_point=40), columns)
    starts = {line.split()[0]: re.search(r"[-.#%+]+", line) for line in lines[:4]}
    stems = next(line for line in lines if set(line.strip()) <= {"|", " "})
    at = [number for number, sign in enumerate(stems) if sign == "|"]
    bar = starts["30"]
    assert bar is not None
    assert bar.start() in at
    assert len(at) == 4
    text = " ".join(line.strip(" |`'") for line in lines)
    for label in ("log start 0", "first dirty 15", "log end"):
        assert label in re.sub(r"[ |]+", " ", text), label


def test_an_empty_log_and_one_with_an_empty_active_segment(tmp_path: Path) -> None:
    write_segment(tmp_path / "a-0", 7, [])
    lines = drawn(info_of(tmp_path / "a-0"))
    assert lines[0].split()[0] == "7"
    assert set(lines[0].split()[1]) == {"-"}
    write_segment(tmp_path / "b-0", 0, [batch(0, [1, 2])])
    write_segment(tmp_path / "b-0", 2, [])
    lines = drawn(info_of(tmp_path / "b-0"))
    assert [set(line.split()[1]) for line in lines[:2]] == [{"#"}, {"-"}]
    assert lines[1].split()[1] == "-"


def test_many_segments_share_rows(tmp_path: Path) -> None:
    write_partition(tmp_path / "t-0", segments=100, batches=1, records=1)
    lines = drawn(info_of(tmp_path / "t-0"))
    rows = [line for line in lines if re.match(r" *\d+ (\(|  )", line)]
    assert 30 < len(rows) <= MAX_ROWS
    assert sum(int((re.search(r"\((\d+) segments\)", row) or [1, 1])[1]) for row in rows) == 100
    assert rows[-1].split()[0] == "99"


def test_a_segment_that_cannot_be_read(keyed: Path) -> None:
    info = info_of(keyed)
    broken = info.segments[-1]._replace(end_offset=None, first_timestamp=None, largest_timestamp=None)
    lines = drawn(info._replace(segments=(*info.segments[:-1], broken)))
    assert any(line.endswith("log end 30") for line in lines)


def test_a_log_directory_draws_all_of_it(run: Run, keyed: Path) -> None:
    write_partition(keyed.parent / "other-0", segments=2)
    assert run("ls", "--graph", keyed.parent) == 0
    assert run.out.count("log start") >= 2
    assert sum(1 for line in run.lines if "░ active segment" in line) == 2
    assert run("ls", "--graph", keyed.parent, "--topic", "other") == 0
    assert sum(1 for line in run.lines if "░ active segment" in line) == 1


def test_colours_only_where_they_are_wanted(run: Run, keyed: Path) -> None:
    assert run("ls", "--graph", keyed, "--color", "always") == 0
    assert "\x1b[32m" in run.out
    colored = run.out
    assert run("ls", "--graph", keyed) == 0
    assert "\x1b" not in run.out
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == run.out.split()


def test_not_as_json(run: Run, keyed: Path) -> None:
    assert run("ls", "--graph", keyed, "--format", "jsonl") == 2
    assert "--graph draws text" in run.err


def test_signs_are_one_column_wide_each() -> None:
    assert all(len(style.sign) == len(style.plain) == 1 and style.plain.isascii() for style in STYLES.values())


def test_all_of_kafkas_own_logs_can_be_drawn(run: Run) -> None:
    for case in sorted(CORPUS.iterdir()):
        assert run("ls", "--graph", case) in (0, 3), case
        assert "Traceback" not in run.err
