"""`kdump stats`: text, JSON lines, and the page with plots."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import kdump
from kdump.commands.stats.html import page
from kdump.commands.stats.svg import number_ticks, size_ticks, time_ticks
from kdump.formats import names
from kdump.operations.stats import PartitionStats, TopicStats, by_topic
from kdump.statistics.partition import SegmentTimes, StatsOptions, partition_stats
from kdump.storage.partition import PartitionLog
from tests.commands.logs import EPOCH, batch, write_segment
from tests.commands.running import Run
from tests.rows import rows_in
from tests.storage.building import flipped

CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name, count in (("orders-0", 3), ("orders-1", 2), ("clicks-0", 1)):
        write_segment(folder / name, 0, [batch(10 * number, 10) for number in range(count)])
    write_segment(folder / "orders-0", 30, [batch(30, 10)])
    (folder / names.CLEANER_CHECKPOINT).write_text("0\n1\norders 0 30\n")
    return folder


def test_text(run: Run, data: Path) -> None:
    assert run("stats", data) == 0
    assert run.err == ""
    rows = run.table("PARTITION")
    assert [(row["PARTITION"], row["RECORDS"], row["BATCHES"]) for row in rows] == [
        ("clicks-0", "10", "1"),
        ("orders-0", "40", "4"),
        ("orders-1", "20", "2"),
    ]
    assert rows[1]["DIRTY"] == "0 %"
    assert "orders: 2 partitions together" in run.out
    assert "  records       60 in 6 batches, 10.0 a batch (10 to 10)" in run.out


def test_details_and_records(run: Run, data: Path) -> None:
    assert run("stats", data / "orders-0", "--records") == 0
    assert "cleaner       clean up to offset 30" in run.out
    assert "compaction    7 different keys: would keep 7 records (18 %)" in run.out
    assert run("stats", data / "orders-0", "--no-details") == 0
    assert len(run.lines) == 2
    assert run("stats", data, "--details") == 0
    assert str(data / "orders-1") in run.out
    assert "orders: 2 partitions together" in run.out


def test_many_topics_do_not_print_pages(run: Run, tmp_path: Path) -> None:
    for number in range(35):
        batches = [batch(0, 3 + (number == 7)), *([flipped(batch(3, 3), -1), batch(6, 3)] if number == 3 else ())]
        write_segment(tmp_path / f"topic{number}-0", 0, batches)
    assert run("stats", tmp_path) == 1
    assert len(run.lines) <= 60
    assert [line for line in run.lines if line.startswith(str(tmp_path))] == [f"{tmp_path}/topic3-0"]  # the damaged one
    assert "34 more topics: --topic NAME, or --details." in run.lines
    assert run.lines[-2:] == ["FOUND: 1 damaged range in 1 of 35 partitions.", f"Next: kdump doctor {tmp_path}"]
    assert run("stats", tmp_path, "--details") == 1
    assert sum(line.startswith(str(tmp_path)) for line in run.lines) == 35
    assert run("stats", tmp_path, "--topic", "topic[0-4]") == 1
    titles = [line.rpartition("/")[2] for line in run.lines if line.startswith(str(tmp_path))]
    assert titles == ["topic3-0", "topic0-0", "topic1-0", "topic2-0"]


def test_a_log_directory_without_partitions(run: Run, tmp_path: Path) -> None:
    (tmp_path / names.META_PROPERTIES).write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    assert run("stats", tmp_path) == 0
    assert run.err == "kdump: note: there is no partition in these PATHs\n"
    assert run("stats", tmp_path, "--topic", "x") == 3


def test_jsonl(run: Run, data: Path) -> None:
    assert run("stats", data, "--format", "jsonl", "--topic", "orders", "--records") == 0
    partitions, topics = run.of_type("partition"), run.of_type("topic")
    assert [row["partition"] for row in partitions] == [0, 1]
    assert partitions[0]["cleaner"]["dirtyRatio"] == 0
    assert (partitions[0]["firstOffset"], partitions[0]["lastOffset"]) == (0, 39)
    assert partitions[1]["cleaner"] is None
    topic = topics[0]
    assert (topic["partitions"], topic["records"], topic["batches"], topic["segments"]) == (2, 60, 6, 3)
    assert topic["bytes"] == sum(row["bytes"] for row in partitions) == topic["codecs"]["none"]["bytes"]
    assert topic["contents"]["distinctKeys"] == 14
    assert topic["estimatedBytes"]["none"] == topic["bytes"]
    assert sum(step["bytes"] for step in topic["bytesOverTime"]) == topic["bytes"]
    assert sum(bucket[2] for bucket in topic["batchSizes"]["buckets"]) == 6


def test_every_field_is_documented(run: Run, data: Path) -> None:
    documented = (CORPUS.parents[1] / "docs" / "stats.md").read_text()
    assert run("stats", data, "--format", "jsonl", "--records") == 0
    for row in run.rows:
        for name in [*row, *row["contents"]]:
            assert name == "type" or f"`{name}`" in documented, name


def test_damage(run: Run, tmp_path: Path) -> None:
    good = batch(0, 3)
    log = write_segment(tmp_path / "orders-0", 0, [good, flipped(batch(3, 3), -1), batch(6, 3)])
    assert run("stats", log.parent) == 1
    assert run.err.startswith(f"kdump: {log}: byte {len(good)}: batch ")
    assert "damage        1 damaged range" in run.out


def test_what_is_not_there(run: Run, data: Path) -> None:
    assert run("stats", data / "nothing") == 3
    assert run("stats", data, "--topic", "none-such") == 3
    assert run.err == "kdump: no partition has a topic that matches none-such\n"
    assert run("stats", next((data / "orders-0").glob("*.log"))) == 2
    assert run("stats", data, "--key-memory", "much") == 2
    page = data.parent / "nothing" / "page.html"
    assert run("stats", data, "--report", page) == 3
    assert run.err == f"kdump: {page} cannot be written: No such file or directory. Nothing was done.\n"


def test_a_report_does_not_take_the_place_of_anything_else(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = (data / "clicks-0").glob("*.log")
    before = log.read_bytes()
    assert run("stats", data, "--report", log) == 2
    assert f"{log} is in Kafka's own {log.parent}" in run.err
    assert log.read_bytes() == before
    (tmp_path / "page.html.tmp").write_text("mine")
    for name in ("page.html", "html:other.html"):  # with its format, as reports of other commands have it
        monkeypatch.chdir(tmp_path)
        assert run("stats", data, "--report", name) == 0
        assert (tmp_path / name.removeprefix("html:")).exists()
    assert (tmp_path / "page.html.tmp").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "other.html", "page.html", "page.html.tmp"]


class Page(HTMLParser):
    """The tags of a page, all of which have to be closed in order, and what they refer to."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        self.text += text


@pytest.mark.parametrize("case", ["c-extreme-ts", "s-src-txn", "b-v0-lz4-gaps", "h-empty", "i-crc-payload-active"])
def test_the_report_of_kafkas_own_logs(case: str, run: Run, tmp_path: Path) -> None:
    report = tmp_path / "page.html"
    run("stats", CORPUS / case, "--report", report, "--now", "2023-11-16", "--records")
    text = report.read_text(encoding="utf-8")
    parsed = Page(text)
    assert parsed.tags.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert parsed.attributes.isdisjoint({"src", "onload"})
    assert set(re.findall(r'href="(#?)', text)) <= {"#"}  # nothing but places of the page itself
    assert "http:" not in text
    assert "https:" not in text
    assert "Outlook on retention of 7 d" in parsed.text
    plots = re.findall(r"<svg.*?</svg>", text)
    assert len(plots) == {"h-empty": 0, "b-v0-lz4-gaps": 2}.get(case, 4)
    for plot in plots:
        for element in ElementTree.fromstring(plot).iter():
            for name in ("x", "y", "x1", "x2", "y1", "y2"):
                assert 0 <= float(element.get(name, 0)) <= 760
            assert float(element.get("width", 0)) >= 0
            assert 0 <= float(element.get("height", 0)) <= 240
    assert not list(tmp_path.glob("*.tmp"))


def test_what_comes_from_names_is_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "<script>alert(1)<\x1b-0"
    write_segment(folder, 0, [batch(0, 3)])
    stats = partition_stats(PartitionLog(str(folder)), StatsOptions())
    name = '"><script>alert(1)</script>\x1b'
    topic = TopicStats(name, [PartitionStats(str(folder), name, 0, stats, None)], stats)
    text = page([topic], now=EPOCH, retention_ms=1000)
    assert "script" not in Page(text).tags
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\x1b" not in text


def test_the_first_screen_of_the_report_answers(run: Run, tmp_path: Path) -> None:
    for number, batches in enumerate((1, 1, 6)):
        write_segment(tmp_path / f"skewed-{number}", 0, [batch(10 * at, 10) for at in range(batches)])
    write_segment(tmp_path / "it's odd-0", 0, [batch(0, 3), flipped(batch(3, 3), -1), batch(6, 3)])
    report = tmp_path.parent / f"{tmp_path.name}.html"
    assert run("stats", tmp_path, "--report", report) == 1
    text = report.read_text(encoding="utf-8")
    first = text[: text.index("<h3>All topics</h3>")]
    shown = Page(text).text
    assert "1 partition with damage:" in shown
    assert "1 damaged range, " in shown
    assert f"kdump doctor '{tmp_path}/it'\"'\"'s odd-0'" in shown
    assert re.search(r"partition 2: [\d.]+ \w+, 2\.[23] times the mean", shown)
    assert '<a href="#topic-1">skewed</a></span><span class="track"><span class="fill" style="width:100.0%">' in first
    assert re.search(r"(gzip|zstd) saves [\d.]+ \w+, \d+ %", first)
    assert 'id="topic-1"' in text
    assert "prefers-color-scheme:dark" in text


def test_nothing_beside_the_report_is_written_over(run: Run, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    kept = folder / "page.html.tmp"
    kept.write_text("mine")
    (folder / "page.html").write_text("old")
    assert run("stats", data, "--report", folder / "page.html") == 0
    assert (folder / "page.html").read_text().startswith("<!doctype html>")
    assert kept.read_text() == "mine"
    assert len(list(folder.iterdir())) == 2


def test_what_is_uneven_and_which_codec_is_worth_it(tmp_path: Path) -> None:
    for number, batches in enumerate((1, 1, 6)):
        write_segment(tmp_path / f"t-{number}", 0, [batch(10 * at, 10, value_size=100) for at in range(batches)])
    (topic,) = by_topic(each for each in kdump.stats(tmp_path) if isinstance(each, PartitionStats))
    assert topic.largest.partition == 2
    assert topic.unevenness == pytest.approx(6 * 3 / 8, abs=0.01)
    assert topic.is_uneven
    assert topic.saving is not None
    assert topic.saving.bytes == topic.stats.batches.bytes - (topic.stats.in_codec(topic.saving.codec) or 0)
    alone = by_topic(topic.partitions[:1])[0]
    assert (alone.unevenness, alone.is_uneven) == (1.0, False)
    unsampled = kdump.stats(tmp_path, options=StatsOptions(sample=0))
    (topic,) = by_topic(each for each in unsampled if isinstance(each, PartitionStats))
    assert topic.saving is None


def test_a_report_without_damage_says_so(run: Run, data: Path, tmp_path: Path) -> None:
    report = tmp_path / "page.html"
    assert run("stats", data, "--report", report) == 0
    assert "No damage was found in what was read." in report.read_text(encoding="utf-8")


def test_many_topics_stay_readable(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(0, 3)])
    stats = partition_stats(PartitionLog(str(tmp_path / "t-0")), StatsOptions())
    topics = [TopicStats(f"t{number}", [PartitionStats("p", "t", 0, stats, None)], stats) for number in range(45)]
    text = page(topics, now=EPOCH, retention_ms=1000)
    assert text.count("<h2 id=") == 40
    assert all(f'<td><a href="#topic-{number + 1}">t{number}</a></td>' in text for number in range(40))
    assert all(f"<td>t{number}</td>" in text for number in range(40, 45))
    assert "37 more topics." in text


def test_the_age_of_a_segment_without_timestamps_is_its_files() -> None:
    assert [each.time for each in (SegmentTimes(5, 20, 100, 1), SegmentTimes(9, 30, -1, 700))] == [100, 700]


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 1), (1_700_000_000_000, 1_700_000_090_000), (0, 1 << 62)])
def test_ticks_are_few_and_in_range(low: int, high: int) -> None:
    for ticks in (number_ticks(low, high, str), time_ticks(low, high), size_ticks(high, str)):
        assert len(ticks) <= 12
        assert all(min(low, 0) <= at <= max(high, low + 1) for at, _ in ticks)
    assert time_ticks(1_700_000_000_000, 1_700_000_090_000)[0][1] == "22:13:30"


def test_json_and_text_agree(run: Run, data: Path) -> None:
    run("stats", data, "--format", "jsonl")
    found = {f"{row['topic']}-{row['partition']}": row for row in rows_in("\n".join(run.lines)) if "path" in row}
    run("stats", data)
    for row in run.table("PARTITION"):
        assert int(row["SEGMENTS"]) == found[row["PARTITION"]]["segments"]


def test_a_report_in_another_format(run: Run, tmp_path: Path) -> None:
    assert run("stats", tmp_path, "--report", "htm:page") == 2
    assert "--report: 'htm' is not html. Did you mean 'html'?" in run.err
    assert not (tmp_path / "htm:page").exists()
