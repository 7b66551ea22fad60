"""`kdump txns`, through the command: open and hanging transactions, what they hold, and how to end them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import kdump
from tests.commands.running import invoked
from tests.rows import rows_in
from tests.topics.building import NOW, Log, checkpoint, transaction_pair

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "fixtures" / "corpus"
PAIR = (b"k", b"v")
TIMEOUT = 900_000
LATE = TIMEOUT + 300_000

KEYS = {
    "partition": [
        "topic", "partition", "path", "logStartOffset", "lastStableOffset", "highWatermark", "logEndOffset",
        "blockedBy", "open", "hanging", "commitMarkers", "abortMarkers", "emptyMarkers", "batches",
    ],
    "openTransaction": [
        "topic", "partition", "path", "producerId", "producerEpoch", "coordinatorEpoch", "firstOffset", "lastOffset",
        "firstTimestamp", "lastTimestamp", "ageMs", "batches", "records", "bytes", "isOlderThanLog",
        "isBlockingLastStableOffset", "transactionalId", "state", "isHanging", "reasons", "abortCommand",
        "abortCommandBefore30",
    ],
    "endedTransaction": [
        "topic", "partition", "path", "producerId", "producerEpoch", "coordinatorEpoch", "outcome", "firstOffset",
        "lastOffset", "timestamp", "lastStableOffset",
    ],
    "indexMismatch": ["topic", "partition", "path", "kind", "producerId", "firstOffset", "lastOffset"],
    "transactionalId": [
        "transactionalId", "statePartition", "state", "isStuck", "producerId", "producerEpoch", "previousProducerId",
        "nextProducerId", "timeoutMs", "startTimestamp", "lastUpdateTimestamp", "partitions",
    ],
}  # fmt: skip


def run(*arguments: object, now: int = NOW + 1000) -> Result:
    return invoked("txns", *arguments, "--now", now)


def objects(*arguments: object, now: int = NOW + 1000) -> list[dict[str, Any]]:
    return rows_in(run(*arguments, "--format", "jsonl", now=now).stdout)


def of_type(kind: str, *arguments: object, now: int = NOW + 1000) -> list[dict[str, Any]]:
    return [row for row in objects(*arguments, now=now) if row["type"] == kind]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Producer 7 has committed and is open again at offset 3, at NOW + 2; producer 8 has aborted; 9 is idle."""
    log = Log(tmp_path / "orders-0").add(PAIR, PAIR, producer=(7, 5)).commit(7, 5).add(PAIR, PAIR, producer=(7, 5))
    log.add(PAIR, producer=(8, 0)).abort(8, 0, first=5).add(PAIR).write()
    Log(tmp_path / "plain-0").add(PAIR).write()
    return tmp_path


def states(folder: Path, *pairs: Any) -> None:
    Log(folder / "__transaction_state-3").add(*pairs).write()


def state(status: int, transactional_id: str = "billing", producer: int = 7, **fields: Any) -> Any:
    topics = [{"topic": "orders", "partitionIds": [0]}]
    defaults = {
        "transactionStatus": status, "producerId": producer, "producerEpoch": 5, "transactionPartitions": topics,
        "transactionLastUpdateTimestampMs": NOW,
    }  # fmt: skip
    return transaction_pair(transactional_id, **(defaults | fields))


def test_text_of_an_open_transaction(data: Path) -> None:
    states(data, state(1), state(0, "idle", 9, transactionPartitions=None))
    result = run(data)
    assert result.return_value == 0
    assert result.stderr == ""
    assert result.stdout == (
        f"{data}/orders-0   read_committed consumers stop at offset 3\n"
        "  log      log start offset 0, last stable offset 3, high watermark unknown, log end offset 8;"
        " markers: 1 COMMIT, 1 ABORT\n"
        "  open     producer 7 epoch 5, offsets 3\N{EN DASH}4, 2 records, open 998 ms"
        " (last record 2023-11-14T22:13:20.002Z)\n"
        '  id       "billing" (Ongoing, epoch 5, timeout 1 min)\n'
        "\n"
        "TRANSACTIONAL ID  STATE    PRODUCER  EPOCH  LAST UPDATE               PARTITIONS\n"
        "billing           Ongoing         7      5  2023-11-14T22:13:20.000Z  orders:0\n"
        "\n"
        "OK. 1 open transaction in 1 of 2 partitions, none hangs.\n"
    )


def test_json_lines(data: Path) -> None:
    states(data, state(1))
    (data / "orders-0" / f"{0:020d}.txnindex").unlink()
    found = objects(data, "--ended")
    for row in found:
        assert list(row) == ["type", *KEYS[row["type"]]]
    assert [row["type"] for row in found] == [
        "partition", "openTransaction", "endedTransaction", "endedTransaction", "indexMismatch", "partition",
        "transactionalId",
    ]  # fmt: skip
    partition, txn, committed, aborted, mismatch, plain, known = found
    assert (partition["lastStableOffset"], partition["logEndOffset"], partition["blockedBy"]) == (3, 8, 3)
    assert (partition["commitMarkers"], partition["abortMarkers"], partition["highWatermark"]) == (1, 1, None)
    assert (txn["firstOffset"], txn["lastOffset"], txn["records"], txn["ageMs"]) == (3, 4, 2, 998)
    assert (txn["producerId"], txn["producerEpoch"], txn["coordinatorEpoch"]) == (7, 5, 3)
    assert (txn["transactionalId"], txn["state"], txn["isHanging"], txn["reasons"]) == ("billing", "Ongoing", False, [])
    assert txn["isBlockingLastStableOffset"] is True
    assert (committed["outcome"], committed["firstOffset"], committed["lastOffset"]) == ("commit", 0, 2)
    assert (aborted["outcome"], aborted["firstOffset"], aborted["lastOffset"]) == ("abort", 5, 6)
    assert (mismatch["kind"], mismatch["producerId"], mismatch["firstOffset"]) == ("missing", 8, 5)
    assert (plain["topic"], plain["lastStableOffset"], plain["blockedBy"]) == ("plain", 1, None)
    assert known["partitions"] == [{"topic": "orders", "partitions": [0]}]
    assert (known["transactionalId"], known["isStuck"], known["timeoutMs"]) == ("billing", False, 60_000)


@pytest.mark.parametrize(("age", "code"), [(LATE, 0), (LATE + 1, 1)])
def test_late_to_the_millisecond(data: Path, age: int, code: int) -> None:
    result = run(data, now=NOW + 2 + age)
    assert result.return_value == code
    assert ("  hanging  " in result.stdout) == bool(code)


def test_the_longest_timeout_can_be_told(data: Path) -> None:
    assert run(data, "--max-timeout-ms", 0, now=NOW + 2 + 300_001).return_value == 1
    assert run(data, "--max-timeout-ms", 0, now=NOW + 2 + 300_000).return_value == 0


def test_how_to_end_a_hanging_transaction(data: Path) -> None:
    """The lines for kafka-transactions.sh, of brokers from 3.0 on and of older ones."""
    result = run(data, now=NOW + 2 + LATE + 1)
    tool = "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic orders --partition 0"
    assert "  hanging  producer 7 epoch 5, offsets 3" in result.stdout
    assert f"           {tool} --start-offset 3\n" in result.stdout
    assert result.stdout.index("the coordinator may end it") < result.stdout.index(tool)
    assert "Loses the 2 records for read_committed consumers." in result.stdout
    old = f"{tool} --producer-id 7 --producer-epoch 5 --coordinator-epoch 3"
    assert f"           Before Kafka 3.0: {old}\n" in result.stdout
    assert "open 20 min" in result.stdout
    (txn,) = of_type("openTransaction", data, now=NOW + 2 + LATE + 1)
    assert (txn["abortCommand"], txn["abortCommandBefore30"]) == (f"{tool} --start-offset 3", old)
    assert (txn["isHanging"], txn["reasons"]) == (True, ["late"])


@pytest.mark.parametrize(
    ("status", "fields", "age", "reasons"),
    [
        (1, {}, TIMEOUT + 1, []),
        (1, {}, LATE + 1, ["late"]),
        (1, {"producerEpoch": 6}, TIMEOUT, []),
        (1, {"producerEpoch": 6}, TIMEOUT + 1, ["not covered"]),
        (1, {"transactionPartitions": [{"topic": "orders", "partitionIds": [1]}]}, TIMEOUT + 1, ["not covered"]),
        (0, {"transactionPartitions": None}, TIMEOUT + 1, ["not covered"]),
        (4, {}, LATE + 1, ["late", "not covered"]),
        (2, {}, TIMEOUT + 1, []),
    ],
)
def test_why_a_transaction_hangs(data: Path, status: int, fields: Any, age: int, reasons: list[str]) -> None:
    states(data, state(status, **fields))
    now = NOW + 2 + age
    (txn,) = of_type("openTransaction", data, now=now)
    assert txn["reasons"] == reasons
    result = run(data, now=now)
    is_stuck = status == 2 and age > LATE
    is_hanging = "not covered" in reasons
    assert txn["isHanging"] == is_hanging
    assert result.return_value == (1 if is_hanging or is_stuck else 0)
    is_awaited = "its coordinator has it as Ongoing, and ends it when it runs" in result.stdout
    assert is_awaited == (reasons == ["late"])
    assert ("kafka-transactions.sh" in result.stdout) == is_hanging


@pytest.mark.parametrize(("epoch", "is_hanging"), [(5, False), (6, True)])
def test_verify_and_txns_agree_on_what_hangs(data: Path, epoch: int, is_hanging: bool) -> None:
    """A transaction that its coordinator will end does not hang, however old it is."""
    states(data, state(1, producerEpoch=epoch))
    now = NOW + 3 + LATE
    for path in (data, data / "orders-0"):
        (finding,) = [each for each in kdump.verify(path, now=now) if each.code in ("KD-TXN-OPEN", "KD-TXN-HANGING")]
        assert (finding.code == "KD-TXN-HANGING") == is_hanging
        assert ("its coordinator has it as Ongoing" in finding.message) != is_hanging
    assert ("  hanging  " in run(data, now=now).stdout) == is_hanging


def test_an_id_that_is_stuck(data: Path) -> None:
    states(data, state(2, transactionLastUpdateTimestampMs=NOW - LATE))
    assert run(data / "__transaction_state-3", now=NOW).return_value == 0
    result = run(data / "__transaction_state-3", now=NOW + 1)
    assert result.return_value == 1
    assert "PrepareCommit (STUCK)" in result.stdout
    assert result.stdout.splitlines()[-2] == "FOUND: 1 transactional id stuck."
    assert "abort" not in run(data, now=NOW + 3 + LATE).stdout


def test_what_the_high_watermark_holds(data: Path) -> None:
    """A transaction whose marker is not replicated yet is as good as open for consumers."""
    checkpoint(data, "replication-offset-checkpoint", ("orders", 0, 2), ("plain", 0, 0))
    result = run(data)
    assert "last stable offset 0, high watermark 2, log end offset 8" in result.stdout
    assert "blocked by the transaction at offset 0, whose marker is not below the high watermark" in result.stdout
    assert "blocked by the high watermark" in run(data, "--all").stdout
    (txn,) = of_type("openTransaction", data)
    assert txn["isBlockingLastStableOffset"] is False


def test_the_index_is_held_against_the_log(data: Path) -> None:
    path = data / "orders-0" / f"{0:020d}.txnindex"
    assert run(data).return_value == 0
    path.unlink()
    result = run(data)
    assert result.return_value == 1
    assert f"aborted transaction of producer 8, offsets 5\N{EN DASH}6: {path} has no entry of it" in result.stdout
    assert result.stdout.endswith("FOUND: 1 mismatch with the transaction index.\n")


def test_what_is_shown(data: Path) -> None:
    """Of many partitions those with something to say, of a single one all."""
    states(data, state(0, transactionPartitions=None))
    assert "plain-0" not in run(data).stdout
    assert "TRANSACTIONAL ID" not in run(data).stdout
    shown = run(data, "--all").stdout
    assert "plain-0   no transaction is open\n  log      log start offset 0" in shown
    assert "billing           Empty" in shown
    assert "plain-0   no transaction is open\n  log      log start offset 0" in run(data / "plain-0").stdout
    assert "orders-0" not in run(data, "--topic", "pl*").stdout
    with pytest.raises(Exception, match="no partition has a topic that matches x"):
        run(data, "--topic", "x")


def test_ended_transactions(data: Path) -> None:
    lines = run(data / "orders-0", "--ended").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  ENDED"))
    assert [line.split() for line in lines[at + 1 : at + 3]] == [
        ["COMMIT", "7", "5", "0", "2", "3", "2023-11-14T22:13:20.001Z"],
        ["ABORT", "8", "0", "5", "6", "3", "2023-11-14T22:13:20.004Z"],
    ]


def test_a_name_that_a_shell_would_split(tmp_path: Path) -> None:
    Log(tmp_path / "a b-0").add(PAIR, producer=(7, 5)).write()
    assert "--topic 'a b' --partition 0" in run(tmp_path, now=NOW + LATE + 1).stdout


def test_damage_is_told_and_the_rest_stays(data: Path) -> None:
    path = data / "orders-0" / f"{0:020d}.log"
    log = bytearray(path.read_bytes())
    log[70] ^= 1
    path.write_bytes(log)
    result = run(data)
    assert result.return_value == 1
    assert f"{path}: byte 0: " in result.stderr
    assert "  open     producer 7 epoch 5, offsets 3" in result.stdout
    assert "FOUND: damage." in result.stdout


@pytest.mark.parametrize(("case", "code"), [("s-src-txn", 1), ("d-only-control", 0), ("f-transaction-state", 1)])
def test_kafkas_own_logs(case: str, code: int) -> None:
    assert run(CORPUS / case, now=NOW + 86_400_000).return_value == code


def test_kafkas_own_open_transaction() -> None:
    """The producer snapshot that Kafka wrote at the end knows the same transaction, and its last record's time."""
    from kdump.formats.producer_snapshot import decode_producer_snapshot

    folder = CORPUS / "s-src-txn" / "topic-0"
    snapshot = max(folder.glob("*.snapshot"))
    entries = decode_producer_snapshot(snapshot.read_bytes())
    expected = [
        (entry.producer_id, entry.producer_epoch, entry.current_txn_first_offset, entry.timestamp)
        for entry in entries
        if entry.current_txn_first_offset >= 0
    ]
    found = of_type("openTransaction", folder)
    keys = ("producerId", "producerEpoch", "firstOffset", "lastTimestamp")
    assert [tuple(row[key] for key in keys) for row in found] == sorted(expected, key=lambda entry: entry[2])
    assert found


def test_every_field_is_documented() -> None:
    from tests.commands import test_groups, test_metadata

    pages = (ROOT / "docs" / page for page in ("groups-txns-metadata.md", "json.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    fields = [*test_groups.GROUP_KEYS, *test_groups.MEMBER_KEYS, *test_groups.COMMIT_KEYS]
    for documented in (KEYS, test_metadata.KEYS):
        fields += [*documented, *(field for names in documented.values() for field in names)]
    assert [field for field in fields if f"`{field}`" not in text] == []


def test_a_transaction_that_began_before_the_log_has_no_first_timestamp(tmp_path: Path) -> None:
    folder = shutil.copytree(CORPUS / "i-snap-crc" / "topic-0", tmp_path / "topic-0")
    for path in (*folder.glob(f"{0:020d}.*"), *folder.glob(f"{538:020d}.*")):
        path.unlink()
    (row,) = [row for row in of_type("openTransaction", "--all", folder) if row["isOlderThanLog"]]
    assert (row["firstOffset"], row["firstTimestamp"]) == (36, None)
