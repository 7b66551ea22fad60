"""dump-log prints what the kafka-dump-log.sh of each release printed for the same files: `fixtures/releases.tar.xz`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.releases import DUMP_IN_JAVA, NEWEST, KafkaRelease
from tests.commands import golden
from tests.unpacking import unpack

RELEASES = ("3.9", "4.0", "4.1", "4.2", "4.3")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("releases")
    unpack(golden.FIXTURES / "releases.tar.xz", folder)
    return folder


def rows(path: Path) -> Iterator[golden.Row]:
    with open(path, encoding="utf-8", newline="\n") as lines:
        yield from map(json.loads, lines)


@pytest.mark.parametrize("release", RELEASES)
def test_records_of_every_release(archive: Path, release: str) -> None:
    """Every record type of every release with random values, read by this release's tool."""
    found = [
        f"{row['args']}: {', '.join(different)}"
        for row in rows(archive / f"records-{release}.jsonl")
        if (different := golden.differences(row, golden.in_process(row["args"], release, archive / "records")))
    ]
    assert found == []


@pytest.mark.parametrize("release", [release for release in RELEASES if release != golden.RELEASE])
def test_logs_indexes_and_snapshots(archive: Path, release: str) -> None:
    """The invocations of `expected/`, where this release's tool prints something else than that of 4.0."""
    others = list(rows(archive / f"corpus-{release}.jsonl"))
    assert others
    found = [
        f"{row['args']}: {', '.join(different)}"
        for row in others
        if (different := golden.differences(row, golden.in_process(row["args"], release)))
    ]
    assert found == []


@pytest.mark.parametrize("case", ["s-src-txn", "s-src-v1-gzip", "f-cluster-metadata", "i-garbage-append5-active"])
def test_what_is_not_listed_is_as_in_4_0(archive: Path, case: str) -> None:
    other = {json.dumps(row["args"]) for row in rows(archive / "corpus-4.3.jsonl")}
    same = [row for row in golden.rows(case) if json.dumps(row["args"]) not in other]
    assert same
    assert [row["args"] for row in same if golden.differences(row, golden.in_process(row["args"], "4.3"))] == []


def test_the_newest_release_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NEWEST.has(DUMP_IN_JAVA)
    path = str(golden.CORPUS / "s-src-txn" / "topic-0" / "leader-epoch-checkpoint")
    for release, code in ((None, 0), ("4.3.1", 0), ("4.2", 1), ("3.9.2", 1)):
        monkeypatch.delenv("KDUMP_KAFKA", raising=False)
        if release:
            monkeypatch.setenv("KDUMP_KAFKA", release)
        assert golden.in_process_unasked(["--files", path]).code == code, release


@pytest.mark.parametrize("text", ["2.8", "4.9", "", "x", "4"])
def test_releases_that_are_not_known(text: str) -> None:
    done = golden.in_process(["--files", "x"], text)
    assert done.code == 1
    assert b"Kafka" in done.err
    assert b"Traceback" not in done.err


def test_each_release_has_texts(archive: Path) -> None:
    assert {f"records-{release}.jsonl" for release in RELEASES} <= {path.name for path in archive.iterdir()}
    assert {KafkaRelease.parse(release) for release in RELEASES} <= set(KafkaRelease)
