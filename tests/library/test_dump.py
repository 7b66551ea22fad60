"""`kdump.dump`: what the command of that name prints, as data."""

from __future__ import annotations

import base64
import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kdump
from kdump.commands.cli import cli
from kdump.errors import KdumpError, NameFormatError, ProblemError
from kdump.interchange.rows import Payload
from kdump.operations.dump import NothingToFollowError
from kdump.operations.dump_rows import BatchRow, FileRow, RecordRow
from kdump.storage.decoded import DamagedError
from tests.commands.test_schemas import data as data
from tests.rows import rows_in
from tests.sampling import sampled
from tests.verify.building import Log, build, file, flip

CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
CASES = sorted(path.name for path in CORPUS.iterdir() if path.is_dir() and not path.name.startswith("z-"))
TXN = CORPUS / "s-src-txn"


def printed(*arguments: object) -> list[dict[str, Any]]:
    """The rows that the command prints, without those about all of them."""
    result = CliRunner().invoke(cli, ["dump", "-o", "jsonl", *map(str, arguments)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return [row for row in rows_in(result.stdout) if row["type"] not in ("header", "summary")]


def records_of(rows: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [
        (row["topic"], row["segment"], row["position"], row["offset"], row["timestamp"], row["transaction"],
         content(row, "key"), content(row, "value"))
        for row in rows if row["type"] == "record"
    ]  # fmt: skip


def content(row: dict[str, Any], name: str) -> object:
    """The bytes of a key or value; what it was decoded to, if it was."""
    twin, value = row.get(f"{name}Base64"), row[name]
    if twin is not None:
        return base64.b64decode(twin)
    return value.encode() if isinstance(value, str) else value


def dumped(*paths: Path, **options: Any) -> list[tuple[object, ...]]:
    return [
        (row.origin.topic, row.origin.number, row.batch.position, row.record.offset, row.record.timestamp,
         str(row.transaction), row.key, row.value)
        for row in kdump.dump(*paths, errors="skip", **options) if isinstance(row, RecordRow)
    ]  # fmt: skip


@pytest.mark.parametrize("case", sampled(CASES, 8))
def test_the_records_are_those_of_the_command(case: str) -> None:
    assert dumped(CORPUS / case) == records_of(printed(CORPUS / case))


@pytest.mark.parametrize("case", sampled(CASES, 8))
def test_other_files_have_the_entries_that_the_command_prints(case: str) -> None:
    rows = list(kdump.dump(CORPUS / case, include=["all"], batches_only=True, errors="skip"))
    shown = printed(CORPUS / case, "--include", "all", "--batches-only")
    assert [row.type if isinstance(row, FileRow) else "batch" for row in rows] == [row["type"] for row in shown]
    for row, line in zip(rows, shown, strict=True):
        if isinstance(row, FileRow):
            assert row.fields == {name: line[name] for name in row.fields}
        else:
            assert isinstance(row, BatchRow)
            assert (row.batch.position, row.batch.crc) == (line["position"], line["crc"])


OPTIONS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"selection": kdump.Selection(200, 260)}, ("--offsets", "200:260")),
    ({"selection": kdump.Selection(since=1_700_000_001_752)}, ("--since", "1700000001752")),
    ({"selection": kdump.Selection(until=1_700_000_001_752)}, ("--until", "1700000001752")),
    ({"selection": kdump.Selection(producer_ids=frozenset((1051,)))}, ("--producer-id", "1051")),
    ({"selection": kdump.Selection(key=lambda key: key == b"key-20")}, ("--key", "key-20")),
    ({"isolation": "read_committed"}, ("--isolation", "read_committed")),
    ({"limit": 7}, ("--limit", "7")),
    ({"tail": 7}, ("--tail", "7")),
    ({"tail": 7, "limit": 3}, ("--tail", "7", "--limit", "3")),
    ({"raw": True}, ("--raw",)),
    ({"use_indexes": False}, ("--no-index",)),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS)
def test_options_do_what_those_of_the_command_do(options: dict[str, Any], words: tuple[str, ...]) -> None:
    found = dumped(TXN, **options)
    assert found
    assert found == records_of(printed(TXN, *words))


def test_internal_topics_are_decoded_unless_raw_is_asked_for() -> None:
    path = CORPUS / "f-consumer-offsets"
    decoded = dumped(path)
    assert any(isinstance(key, dict) for *_, key, _ in decoded)
    assert not any(isinstance(key, dict) for *_, key, _ in dumped(path, raw=True))
    assert dumped(path, raw=True) == records_of(printed(path, "--raw"))


def test_rows_can_be_kept() -> None:
    """The blocks that they are read into are used again."""
    kept = list(kdump.dump(TXN))
    assert [row.record for row in kept if isinstance(row, RecordRow)] == [
        row.record for row in kdump.dump(TXN) if isinstance(row, RecordRow)
    ]
    assert len({row.record for row in kept if isinstance(row, RecordRow)}) == len(kept)


class TestDamage:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Log:
        built = build(tmp_path / "data")
        built.edit(file(0, "log"), flip(70))
        return built

    def test_is_raised_skipped_or_yielded(self, log: Log) -> None:
        with pytest.raises(DamagedError) as raised:
            list(kdump.dump(log.directory))
        skipped = list(kdump.dump(log.directory, errors="skip"))
        yielded = list(kdump.dump(log.directory, errors="yield"))
        assert [row for row in yielded if not isinstance(row, kdump.Damage)] == skipped
        damage = [row for row in yielded if isinstance(row, kdump.Damage)]
        assert [str(each) for each in damage] == [str(raised.value.damage)]
        assert skipped

    def test_what_can_be_read_of_it(self, log: Log) -> None:
        more = list(kdump.dump(log.directory, errors="skip", include_damaged=True))
        extra = [row for row in more if isinstance(row, RecordRow) and not row.batch.valid]
        assert extra
        assert dumped(log.directory, include_damaged=True) == records_of(printed(log.directory, "--include-damaged"))

    def test_a_file_that_cannot_be_parsed_is_a_problem(self, log: Log) -> None:
        checkpoint = log.directory / "recovery-point-offset-checkpoint"
        checkpoint.write_text("nonsense\n")
        with pytest.raises(ProblemError):
            list(kdump.dump(checkpoint))
        assert list(kdump.dump(checkpoint, errors="skip")) == []
        (problem,) = kdump.dump(checkpoint, errors="yield")
        assert isinstance(problem, kdump.Problem)
        assert problem.path == str(checkpoint)

    def test_what_changes_cut_out(self, log: Log) -> None:
        with pytest.raises(FileNotFoundError):
            kdump.dump(log.directory, kept=True)
        list(kdump.repair(log.directory, request=kdump.Request(kdump.Strategy.SALVAGE), apply=True))
        rows = [row for row in kdump.dump(log.directory, kept=True, errors="skip") if isinstance(row, RecordRow)]
        assert rows
        assert "taken out by repair salvage" in rows[0].origin.note
        with pytest.raises(KdumpError, match="is a file"):
            kdump.dump(log.partition / file(0, "log"), kept=True)

    def test_one_batch_field_by_field(self, log: Log) -> None:
        found = kdump.batch_fields(log.partition / file(0, "log"))
        assert not found.batch.is_valid
        assert found.flipped is not None
        assert found.flipped.position == 70
        with pytest.raises(NameFormatError, match=r"expected one \.log"):
            kdump.batch_fields(log.partition)
        with pytest.raises(ValueError, match="at is -1"):
            kdump.batch_fields(log.partition / file(0, "log"), at=-1)


def test_logs_of_any_name(tmp_path: Path) -> None:
    log = TXN / "topic-0" / f"{142:020d}.log"
    packed = tmp_path / "saved.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(log.read_bytes())[:-200])
    expected = [record[3:5] for record in dumped(log)]
    assert [record[3:5] for record in dumped(packed, as_log=True, base_offset=142)] == expected
    cut = list(kdump.dump(tmp_path / "cut.gz", as_log=True, base_offset=142, errors="yield"))
    damage, problem = (row for row in cut if not isinstance(row, RecordRow))
    assert isinstance(damage, kdump.Damage)
    assert isinstance(problem, kdump.Problem)
    assert damage.path == problem.path == str(tmp_path / "cut.gz")
    assert kdump.batch_fields(packed, as_log=True, base_offset=142).batch.first_offset == 142
    with pytest.raises(NameFormatError):
        kdump.dump(packed)


def test_values_are_decoded_by_schemas(data: Path) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("google.protobuf")
    schemas = data / "_schemas-0"
    values = [value for *_, value in dumped(data / "events-0", schemas=schemas)]
    assert [value.message for value in values if isinstance(value, Payload)] == ["acme.Order"]
    assert not any(isinstance(value, Payload) for *_, value in dumped(data / "events-0"))
    problems = [row for row in kdump.dump(data, schemas=schemas, errors="yield") if isinstance(row, kdump.Problem)]
    assert problems


def test_what_is_appended_is_followed(tmp_path: Path) -> None:
    data = shutil.copytree(CORPUS / "s-src-none", tmp_path / "data")
    rows = kdump.dump(data / "topic-0", tail=1, follow=True)
    first = next(rows)
    assert isinstance(first, RecordRow)
    with kdump.append(data / "topic-0") as writer:
        writer.append([kdump.Message(b"value", b"key", 1_700_000_000_000)])
    row = next(rows)
    assert isinstance(row, RecordRow)
    assert (row.record.offset, row.value) == (first.record.offset + 1, b"value")


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"include": ["logs"]}, ValueError, "include is 'logs': expected log, index"),
    ({"isolation": "serializable"}, ValueError, "isolation is 'serializable'"),
    ({"limit": 0}, ValueError, "limit is 0"),
    ({"tail": -1}, ValueError, "tail is -1"),
    ({"selection": (1, 2)}, TypeError, "selection is"),
    ({"raw": "yes"}, TypeError, "raw is 'yes'"),
    ({"errors": "ignore"}, ValueError, "errors is 'ignore'"),
    ({"base_offset": 5}, ValueError, "base_offset goes with as_log"),
    ({"as_log": True}, ValueError, "is a directory"),
    ({"follow": True, "isolation": "read_committed"}, ValueError, "read_committed"),
    ({"follow": True, "kept": True}, ValueError, "does not grow"),
    ({"max_decompressed": 0}, ValueError, "max_decompressed is 0"),
]


@pytest.mark.parametrize(("options", "error", "text"), WRONG)
def test_a_wrong_call_is_said_by_the_call(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        kdump.dump(TXN, **options)


def test_paths_are_looked_at_by_the_call(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is empty: expected one path or more"):
        kdump.dump()
    with pytest.raises(FileNotFoundError):
        kdump.dump(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        kdump.dump(tmp_path / "absent", as_log=True)
    with pytest.raises(NothingToFollowError):
        kdump.dump(TXN / "meta.properties", follow=True)
