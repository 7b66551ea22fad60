"""`dump-log` against each release's own kafka-dump-log: every file of a directory, in every mode, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.commands.golden import in_process
from tests.kafka.broker import minor
from tests.kafka.directories import MADE, Rich, State
from tests.kafka.dumping import (
    DECODERS,
    INDEX_MODES,
    LOG_MODES,
    first_difference,
    without_frames,
    without_identities,
)
from tests.kafka.kit import Kit, Printed
from tests.kafka.tally import Column, Comparison, Tally

_MODES = {
    ".log": LOG_MODES,
    ".index": INDEX_MODES,
    ".timeindex": INDEX_MODES,
    ".txnindex": ((),),
    ".snapshot": ((),),
}


def _invocations(directory: Rich) -> Iterator[tuple[Sequence[str], list[Path]]]:
    """Options and the files that they are tried with."""
    files = [path for path in _files(directory) if directory.state is State.STOPPED or not _is_the_stopped_ones(path)]
    for suffix, modes in _MODES.items():
        for mode in modes:
            yield mode, [path for path in files if path.suffix == suffix]
    for topic, option in DECODERS.items():
        logs = [path for path in files if path.parent.name.rpartition("-")[0] == topic and path.suffix == ".log"]
        for mode in ((), ("--skip-record-metadata",)):
            yield (option, *mode), logs
    yield ("--cluster-metadata-decoder",), [path for path in files if path.suffix == ".checkpoint"]


def _files(directory: Rich) -> Iterator[Path]:
    for log_dir in directory.log_dirs:
        yield from (path for path in sorted(log_dir.rglob("*")) if path.is_file())


def _is_the_stopped_ones(path: Path) -> bool:
    """Whether a file of a killed broker is byte for byte the one that it had when it was stopped before."""
    twin = path.parents[2].parent / State.STOPPED / path.relative_to(path.parents[2])
    return twin.is_file() and twin.read_bytes() == path.read_bytes()


def _ours(release: str, options: Sequence[str], files: Sequence[Path]) -> Printed:
    done = in_process([*options, "--files", ",".join(map(str, files))], release)
    return Printed(done.code, without_identities(done.out), done.err)


def _theirs(kit: Kit, options: Sequence[str], files: Sequence[Path]) -> Printed:
    printed = kit.dump_log(*options, "--files", ",".join(map(str, files)))
    return printed._replace(out=without_identities(printed.out))


def _compare(compare: Comparison, kit: Kit, options: Sequence[str], files: Sequence[Path]) -> None:
    """All files at once; where a tool ends early, each by itself."""
    theirs, ours = _theirs(kit, options, files), _ours(kit.release, options, files)
    what = f"dump-log {' '.join(options)}"
    if len(files) > 1 and (theirs.exit_code or ours.exit_code):
        for file in files:
            _compare(compare, kit, options, [file])
    elif ours.exit_code != theirs.exit_code:
        compare.same(f"{what} {files[0]}: exit code", ours.exit_code, theirs.exit_code)
    else:
        ours_by_file, theirs_by_file = _by_file(ours.out), _by_file(theirs.out)
        for file in files:
            mine, wanted = (one.get(str(file).encode(), b"") for one in (ours_by_file, theirs_by_file))
            compare.same(f"{what} {file}", *first_difference(mine, wanted))
        compare.same(f"{what}: files", list(ours_by_file), list(theirs_by_file))
    if len(files) == 1 or not (theirs.exit_code or ours.exit_code):
        said = first_difference(without_frames(ours.err), without_frames(theirs.err))
        compare.same(f"{what} {files[0]}: stderr", *said)


def _by_file(out: bytes) -> dict[bytes, bytes]:
    """What is printed of each file, by its path; what stands before the first by an empty one."""
    parts = re.split(rb"^Dumping (.*)$", out, flags=re.MULTILINE)
    return {b"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_dump_log_prints_what_kafka_prints(directory: Rich, tally: Tally, tmp_path: Path) -> None:
    with tally.of(directory.release, Column.DUMP) as compare, Kit(directory.release, MADE, tmp_path / "kit.log") as kit:
        for options, files in _invocations(directory):
            if options[:1] == ("--share-group-state-decoder",) and minor(directory.release) == "3.9":
                continue
            if files:
                _compare(compare, kit, options, files)


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "no-such-file.log", "partition.metadata"])
def test_dump_log_refuses_what_kafka_refuses(directory: Rich, tally: Tally, tmp_path: Path, name: str) -> None:
    with tally.of(directory.release, Column.DUMP) as compare, Kit(directory.release, MADE, tmp_path / "kit.log") as kit:
        _compare(compare, kit, (), [directory.log_dirs[0] / "plain-0" / name])
