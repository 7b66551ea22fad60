"""A leader-epoch-checkpoint of more than a mebibyte, which brokers of 3.9.2 to 4.3.1 read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry, format_leader_epochs, parse_leader_epochs
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from tests.agreement.running import kdump
from tests.topics.building import NOW

EPOCHS = 36_000
_BASE, _EPOCH = 10**18, 2 * 10**9
_LOG_DIR = {names.META_PROPERTIES: "version=1\nnode.id=1\ncluster.id=c\n", names.CLEAN_SHUTDOWN: '{"version":0}'}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose every batch is of another leader, in `data`."""
    partition = tmp_path_factory.mktemp("epochs") / "data" / "orders-0"
    partition.mkdir(parents=True)
    numbers = range(EPOCHS)
    with (partition / f"{_BASE:020d}.log").open("wb") as log:
        for number in numbers:
            record = NewRecord(_BASE + number, NOW + number, b"k", b"v")
            log.write(encode_batch([record], NewBatch(0, leader_epoch=_EPOCH + number)))
    epochs = format_leader_epochs(EpochEntry(_EPOCH + number, _BASE + number) for number in numbers)
    assert len(epochs) > 1 << 20
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_bytes(epochs)
    for name, content in _LOG_DIR.items():
        (partition.parent / name).write_text(content)
    data = partition.parent.parent
    assert kdump(data, "rebuild-index", "data/orders-0", "--apply", "--no-backup").code == 0
    return data


@pytest.mark.parametrize("words", ["verify", "startup", "startup --unclean", "repair", "doctor"])
def test_it_is_sound(folder: Path, words: str) -> None:
    said = kdump(folder, *words.split(), "data")
    assert (said.code, said.err) == (0, ""), said.out


def test_what_changes_it_keeps_all_of_it(folder: Path) -> None:
    path = folder / "data" / "orders-0" / names.LEADER_EPOCH_CHECKPOINT
    said = kdump(folder, "retain", "data/orders-0", "--log-start-offset", str(_BASE + 5), "--apply", "--no-backup")
    assert said.code == 0, said.err
    kept = [EpochEntry(_EPOCH + number, _BASE + number) for number in range(5, EPOCHS)]
    assert parse_leader_epochs(path.read_bytes(), path.name) == kept
    assert kdump(folder, "verify", "data").code == 0
