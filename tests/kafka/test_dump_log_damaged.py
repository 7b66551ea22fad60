"""`dump-log` against each release's own kafka-dump-log: wrong options, missing files, and files damaged at random."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from tests.kafka.broker import minor
from tests.kafka.damages import damage_bytes
from tests.kafka.directories import MADE, Rich, State, rich
from tests.kafka.dumping import BYTES, DECODERS, INDEX_MODES, LOG_MODES, compare_one
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Comparison, Tally

_API = BYTES.rpartition(".")[0]

_FILES_A_ROUND = 20
"""Damaged files for each of `--rounds`."""

_LARGEST = 40_000
"""Bytes of a file that is damaged: so that what is damaged is also met."""

_PARTS = {".index": (".log", ".index", ".timeindex"), ".timeindex": (".log", ".index", ".timeindex")}
"""What is copied with a file of a kind."""

_MORE_LOG_MODES = (
    ("--value-decoder-class", f"{_API}.LongDecoder"),
    ("--key-decoder-class", f"{_API}.IntegerDecoder"),
    ("--print-data-log", "--max-bytes", "700"),
)

_NUMBERS = ("", "0", "1", "61", "-1", "+100", "1x", "1_0", " 1", "2147483647", "2147483648", "-2147483649")

_MORE_WORDS = ("--nonsense", "-x", "more", "-", "--", "--print-data-log=true", "--max-bytes", "--key-decoder-class")

_CLASSES = (
    *(f"{_API}.{name}" for name in ("StringDecoder", "LongDecoder", "IntegerDecoder", "DefaultDecoder", "NoDecoder")),
    *(f"kafka.serializer.{name}" for name in ("StringDecoder", "LongDecoder", "IntegerDecoder", "DefaultDecoder")),
    "StringDecoder",
    "com.example.Mine",
    "",
)


def _options(log: Path, other: Path) -> Iterator[Sequence[str]]:
    """Command lines, right and wrong, with a log and the one after it."""
    index, times = (str(log.with_suffix(suffix)) for suffix in (".index", ".timeindex"))
    for number in _NUMBERS:
        yield "--files", str(log), "--max-bytes", number
        yield "--files", index, "--max-message-size", number
        yield "--files", times, "--max-message-size", number
    for name in _CLASSES:
        yield "--files", str(log), "--value-decoder-class", name
        yield "--files", f"{log},{other}", "--key-decoder-class", name, "--value-decoder-class", BYTES
        yield "--files", index, "--value-decoder-class", name
    for option in (*DECODERS.values(), "--remote-log-metadata-decoder"):
        yield "--files", str(log), option
        yield "--files", str(log), option, "--value-decoder-class", "com.example.Mine"
        yield "--files", str(log), option, "--skip-record-metadata"
    for flag in ("--verify-index-only", "--index-sanity-check", "--skip-record-metadata", "--deep-iteration"):
        for name in (str(log), index, times):
            yield "--files", name, flag
            yield "--files", name, flag, flag, "--print-data-log"
    for more in _MORE_WORDS:
        yield "--files", str(log), more
        yield "--files", str(log), more, "--deep-iteration"
    yield "--files", str(log), "--files", str(other)
    yield "--files", str(log), "--max-bytes", "1", "--max-bytes", "2"
    yield "--files", index, "--max-bytes", "1", "--max-bytes", "2"
    yield "--files", str(log), "--offsets-decoder", "--transaction-log-decoder"


def _names(folder: Path, log: Path) -> Iterator[str]:
    """Words for --files: files that are missing, of no known kind, named strangely, and lists of them."""
    yield from ("", ",", ",,", ".", ".log", "nosuch", "nosuch.log", "a.b/c", "./x.log", "/", "//")
    yield from (str(folder), f"{folder}/", f"{folder}//{log.name}", f"{folder}/nosuch/{log.name}")
    yield from (f"{log},{log}", f"{log},", f",{log}", f"{log},,{log}", f"{log}, {log}")
    for name in ("00000000000000000099", "99", "x", "00000000000000000099-0000000000", "99-1"):
        for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", ".log.deleted", ".txt"):
            yield str(folder / f"{name}{suffix}")


def _copied(directory: Rich, name: str, target: Path) -> Path:
    partition = next(path for path in directory.partitions if path.name == name)
    shutil.copytree(partition, target / name)
    return target / name


def test_dump_log_takes_its_options_as_kafka_does(release: str, tally: Tally, tmp_path: Path) -> None:
    folder = _copied(rich(release, State.STOPPED), "plain-0", tmp_path)
    log, other, *_ = sorted(folder.glob("*.log"))
    with tally.of(release, Column.DUMP) as compare, Kit(release, MADE, tmp_path / "kit.log") as kit:
        for arguments in _options(log, other):
            compare_one(compare, kit, f"dump-log {' '.join(arguments)}", *arguments)
        before = set(folder.iterdir())
        for name in _names(folder, log):
            compare_one(compare, kit, f"dump-log --files {name!r}", "--files", name)
            for made in set(folder.iterdir()) - before:
                made.unlink()


def test_dump_log_of_damaged_files(release: str, tally: Tally, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rounds, seed = pytestconfig.getoption("--rounds"), pytestconfig.getoption("--seed")
    pool = _pool(release)
    with tally.of(release, Column.DUMP) as compare, Kit(release, MADE, tmp_path / "kit.log") as kit:
        for number in range(rounds * _FILES_A_ROUND):
            random = Random(f"{seed} {number}")
            file = random.choice(pool[random.choice(sorted(pool))])
            folder = tmp_path / str(number) / file.parent.name
            before = len(compare.differences)
            _dump_damaged(compare, kit, file, folder, random)
            if len(compare.differences) == before:
                shutil.rmtree(folder.parent)


def _pool(release: str) -> dict[tuple[str, str], list[Path]]:
    """Small files of both states of a release, by kind and topic."""
    pool: dict[tuple[str, str], list[Path]] = defaultdict(list)
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
    for state in State:
        directory = rich(release, state)
        for folder in (*directory.partitions, *directory.log_dirs):
            for file in sorted(folder.iterdir()):
                if file.suffix in kinds and 0 < file.stat().st_size < _LARGEST:
                    pool[file.suffix, folder.name.rpartition("-")[0]].append(file)
    return pool


def _dump_damaged(compare: Comparison, kit: Kit, file: Path, folder: Path, random: Random) -> None:
    folder.mkdir(parents=True)
    for suffix in _PARTS.get(file.suffix, (file.suffix,)):
        if (part := file.with_suffix(suffix)).exists():
            shutil.copy(part, folder)
    victim = folder / file.name
    if file.suffix in _PARTS and random.random() < 0.3:
        victim = random.choice(sorted(path for path in folder.iterdir() if path.stat().st_size))
    for _ in range(random.choice((1, 1, 1, 2))):
        damage_bytes(victim, random)
    content = {path: path.read_bytes() for path in folder.iterdir()}
    for mode in _modes(kit.release, file, random):
        arguments = (*mode, "--files", str(folder / file.name))
        compare_one(compare, kit, f"dump-log {' '.join(arguments)}", *arguments)
        _put_back(folder, content)


def _put_back(folder: Path, content: dict[Path, bytes]) -> None:
    """Undo what Kafka's tool does to indexes: it makes missing ones, and cuts others."""
    for path in folder.iterdir():
        if path not in content:
            path.unlink()
    for path, data in content.items():
        path.write_bytes(data)


def _modes(release: str, file: Path, random: Random) -> Sequence[Sequence[str]]:
    if file.suffix in _PARTS:
        return INDEX_MODES
    if file.suffix not in (".log", ".checkpoint"):
        return ((),)
    decoders = [*DECODERS.values(), "--remote-log-metadata-decoder"]
    if minor(release) == "3.9":
        decoders.remove("--share-group-state-decoder")
    own = DECODERS.get(file.parent.name.rpartition("-")[0])
    decoder = own if own in decoders else random.choice(decoders)
    return [(decoder,), *random.sample([*LOG_MODES, *_MORE_LOG_MODES, (decoder, "--skip-record-metadata")], 3)]
