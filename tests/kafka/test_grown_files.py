"""Files that are larger than most, on which brokers of each release start soundly: verify finds no damage in them."""

from __future__ import annotations

import time
from pathlib import Path

from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry, format_leader_epochs
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.names import segment_file_name
from tests.kafka.broker import Broker
from tests.kafka.command import jsonl
from tests.kafka.directories import MADE
from tests.kafka.kit import Kit
from tests.kafka.server_log import loaded, offline
from tests.kafka.tally import Column, Tally

ROOM, EPOCHS = "room", "epochs"
_INDEX_BYTES = 1 << 17
_BASE, _EPOCH, _NUMBER = 10**18, 2 * 10**9, 36_000


def _make_room(partition: Path) -> None:
    """As a start leaves it that is killed between the two steps of LogSegment.resizeIndexes."""
    (index,) = partition.glob("*.index")
    index.write_bytes(index.read_bytes().ljust(_INDEX_BYTES, b"\0"))


def _plant_epochs(partition: Path) -> None:
    """A log whose every batch is of another leader; its epochs take more than a mebibyte."""
    for path in partition.iterdir():
        if path.name != names.PARTITION_METADATA:
            path.unlink()
    now, numbers = int(time.time() * 1000), range(_NUMBER)
    with (partition / segment_file_name(_BASE, ".log")).open("wb") as log:
        for number in numbers:
            record = NewRecord(_BASE + number, now, b"k", b"v")
            log.write(encode_batch([record], NewBatch(0, leader_epoch=_EPOCH + number)))
    content = format_leader_epochs(EpochEntry(_EPOCH + number, _BASE + number) for number in numbers)
    assert len(content) > 1 << 20
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_bytes(content)


def test_brokers_start_soundly(release: str, tally: Tally, tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = Broker(release, tmp_path, [data], **{"log.index.size.max.bytes": str(_INDEX_BYTES)})
    broker.format()
    try:
        broker.start()
        with Kit(release, MADE, tmp_path / "kit.log") as kit:
            for topic, interval in ((ROOM, "1"), (EPOCHS, "4096")):
                configs = {"index.interval.bytes": interval}
                kit.ask("admin", servers=broker.servers, step="create", topic=topic, configs=configs)
            values = [f"value {number}" for number in range(20)]
            kit.ask("admin", servers=broker.servers, step="produce", topic=ROOM, values=values)
        broker.stop()
        (data / names.CLEAN_SHUTDOWN).unlink()
        _make_room(data / f"{ROOM}-0")
        _plant_epochs(data / f"{EPOCHS}-0")
        found = {topic: jsonl("verify", data / f"{topic}-0") for topic in (ROOM, EPOCHS)}
        starts = jsonl("startup", data / f"{ROOM}-0", data / f"{EPOCHS}-0")
        broker.start()
        log = broker.log
        broker.stop()
    finally:
        broker.kill()
    with tally.of(release, Column.VERIFY) as compare:
        for topic, said in found.items():
            errors = [row["code"] for row in said.of_type("finding") if row["severity"] == "error"]
            missing = ["KD-IDX-MISSING", "KD-TIDX-MISSING"] if topic == EPOCHS else []
            compare.same(f"{topic}: errors", [code for code in errors if code not in missing], [])
        compare.same("startup: exit code", starts.exit_code, 0)
        compare.holds("the broker cuts nothing", "truncating to offset" not in log.lower())
        compare.holds("no log directory goes offline", not offline(log))
        start, end, _ = loaded(log)[str(data / f"{EPOCHS}-0")]
        compare.same("epochs: offsets", (_BASE, _BASE + _NUMBER), (start, end))
        compare.same("verify of what the broker leaves", jsonl("verify", data / f"{ROOM}-0").exit_code, 0)
