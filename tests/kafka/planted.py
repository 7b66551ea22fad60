"""Damage of known kinds in files that a running broker does not look at: ten partitions, one kind each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

Plant = Callable[[Path], Path]
"""Damages a partition's directory, and returns the file."""


def _closed(partition: Path, suffix: str, *, at_least: int = 1) -> Path:
    """The first file of a closed segment with so many bytes."""
    names = sorted(path.stem for path in partition.glob("*.log"))[:-1]
    files = (partition / f"{name}{suffix}" for name in names)
    return next(path for path in files if path.exists() and path.stat().st_size >= at_least)


def _write(path: Path, position: int, content: bytes) -> Path:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)
    return path


def flipped_record(partition: Path) -> Path:
    path = _closed(partition, ".log", at_least=100)
    position = path.stat().st_size - 3
    return _write(path, position, bytes([path.read_bytes()[position] ^ 0x40]))


def zeros_in_log(partition: Path) -> Path:
    path = _closed(partition, ".log", at_least=400)
    return _write(path, path.stat().st_size - 200, bytes(200))


def torn_log(partition: Path) -> Path:
    path = _closed(partition, ".log", at_least=100)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 7)
    return path


def index_position(partition: Path) -> Path:
    path = _closed(partition, ".index", at_least=8)
    return _write(path, path.stat().st_size - 4, (3).to_bytes(4, "big"))


def time_index_time(partition: Path) -> Path:
    path = _closed(partition, ".timeindex", at_least=12)
    return _write(path, path.stat().st_size - 12, (1_000_000).to_bytes(8, "big"))


def index_gone(partition: Path) -> Path:
    path = _closed(partition, ".index", at_least=0)
    path.unlink()
    return path


def time_index_odd(partition: Path) -> Path:
    path = _closed(partition, ".timeindex", at_least=12)
    with path.open("ab") as file:
        file.write(b"odd")
    return path


def aborted_transaction_gone(partition: Path) -> Path:
    path = _closed(partition, ".txnindex", at_least=34)
    with path.open("r+b") as file:
        file.truncate(0)
    return path


def epochs_not_numbers(partition: Path) -> Path:
    path = partition / "leader-epoch-checkpoint"
    path.write_text("0\n1\nnot 0\n")
    return path


def another_topic(partition: Path) -> Path:
    path = partition / "partition.metadata"
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAABxA")
    return path


PLANTS: Sequence[tuple[str, Plant]] = (
    ("plain-0", flipped_record),
    ("append-time-0", zeros_in_log),
    ("plain-1", torn_log),
    ("create-time-0", index_position),
    ("plain-2", time_index_time),
    ("trimmed-0", index_gone),
    ("txn-1", time_index_odd),
    ("txn-0", aborted_transaction_gone),
    ("defaults-0", epochs_not_numbers),
    ("headers-0", another_topic),
)


def plant(log_dirs: Sequence[Path]) -> dict[str, Path]:
    """Damage each partition of PLANTS in its way; partition → file."""
    found = {path.name: path for log_dir in log_dirs for path in log_dir.iterdir()}
    return {name: damage(found[name]) for name, damage in PLANTS}
