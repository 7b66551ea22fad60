"""`dump-log` prints large logs with several processes: not a byte may differ from what one alone prints."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kdump import kernels
from kdump.dump_log_segments import regions as dump_log_regions
from kdump.dump_log_segments import run as dump_log_run
from kdump.formats.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.formats.codecs import GZIP, LZ4, SNAPPY, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.storage import regions
from tests.commands import golden
from tests.commands.logs import write_partition
from tests.kernels.seeds import CONTROLS, framed, mend_checksums, records
from tests.sampling import sampled

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="several processes are for Linux alone"),
    pytest.mark.skipif(kernels.active != "native", reason="the native kernels are not built, or not chosen"),
]

MIB = 1 << 20
CODECS = (0, 0, GZIP, SNAPPY, LZ4, ZSTD)
VARIANTS = (
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
    ("--print-data-log", "--max-bytes", "900"),
    ("--value-decoder-class", "org.apache.kafka.tools.api.StringDecoder"),
)


class Regions:
    """Several processes for logs of any size, in regions of `size` bytes; what they printed."""

    def __init__(self, patch: pytest.MonkeyPatch, processes: int, size: int) -> None:
        self.ends: list[int] = []
        patch.setattr(dump_log_run, "PROCESSES_FROM", 0)
        patch.setattr(dump_log_run, "processors", lambda: processes)
        patch.setattr(dump_log_regions, "REGION_SIZE", size)
        whole: Any = dump_log_regions.print_regions

        def watched(*arguments: Any, **options: bool) -> tuple[int, int, list[bytes]]:
            found: tuple[int, int, list[bytes]] = whole(*arguments, **options)
            self.ends.append(found[0])
            return found

        patch.setattr(dump_log_regions, "print_regions", watched)


def entry(kind: int, offset: int, codec: int, size: int) -> bytes:
    """An entry of one of many kinds, its records from `offset` on."""
    big = [NewRecord(offset, 1000 + offset, b"key", b"v" * size)]
    if kind == 0:
        return encode_batch(records(3, offset), NewBatch(codec | LOG_APPEND_TIME))
    if kind == 1:
        return encode_batch(big, NewBatch(codec, producer_id=7, producer_epoch=1, base_sequence=offset))
    if kind == 2:
        return encode_message(big[0], offset % 2)
    if kind == 3:
        contents = [NewRecord(offset + n, 1000, None, b"v" * (size // 4)) for n in range(3)]
        return encode_wrapper(contents, 1, codec if 0 < codec < ZSTD else GZIP)
    if kind == 4:
        number = offset % len(CONTROLS)
        return encode_batch(
            [list(CONTROLS.values())[number]._replace(offset=offset)], NewBatch(CONTROL | TRANSACTIONAL)
        )
    if kind == 5:
        return framed(b"\0" * (size % 50), size % 7, codec)  # records that break
    return encode_batch(records(1 + size % 40, offset, step=1 + kind % 3), NewBatch(codec))


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A log, mostly sound, perhaps with some bytes changed and cut short."""
    ordinary = draw(st.booleans())
    kinds = st.sampled_from((0, 1, 2, 3, 6, 7) if ordinary else (0, 1, 2, 3, 4, 5, 6, 7))
    sizes = st.one_of(st.integers(0, 60), st.integers(0, 3000))
    data = bytearray()
    offset = 0
    for kind, codec, size, gap in draw(
        st.lists(st.tuples(kinds, st.sampled_from(CODECS), sizes, st.sampled_from((0, 0, 0, 5, -3))), max_size=40)
    ):
        offset += 3 + gap
        data += entry(kind, max(0, offset), codec, size)
    for where, byte in draw(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=2)):
        if data:
            data[int(where * len(data))] = byte
    if draw(st.booleans()):
        mend_checksums(data)
    return bytes(data[: len(data) - draw(st.sampled_from((0, 0, 1, 17, 40, 300)))])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    data=logs(),
    processes=st.integers(2, 4),
    size=st.sampled_from((64, 100, 300, 1000, 5000)),
    held=st.sampled_from((0, 500, MIB)),
    variant=st.sampled_from(VARIANTS),
)
@example(data=b"", processes=2, size=100, held=0, variant=VARIANTS[0])
def test_the_same_is_printed(
    data: bytes, processes: int, size: int, held: int, variant: Sequence[str], tmp_path: Path
) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    arguments = ["--files", f"{path},{path}", *variant]
    expected = golden.in_process(arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regions, "MAX_HELD", held)
        patch.setattr(dump_log_regions, "LIMIT", 2000)
        patch.setattr(dump_log_regions, "MAX_RECORDS", 30)
        watched = Regions(patch, processes, size)
        assert golden.in_process(arguments) == expected
        assert watched.ends


def test_nearly_all_is_printed_by_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps between offsets within and between regions are reported, in order."""
    path = tmp_path / f"{0:020d}.log"
    offsets = [n + n // 7 * 3 for n in range(300)]
    data = b"".join(entry(1, offset, CODECS[offset % 6], 30) for offset in offsets)
    path.write_bytes(data + b"tail" * 4)
    arguments = ["--files", str(path), "--deep-iteration"]
    expected = golden.in_process(arguments)
    assert expected.err.count(b"is followed by") == 299 // 7
    watched = Regions(monkeypatch, 3, 500)
    assert golden.in_process(arguments) == expected
    assert watched.ends == [len(data)]


@pytest.mark.parametrize("case", sampled(golden.cases(), 10))
def test_same_as_kafka(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Regions(monkeypatch, 2, 700)
    found = [
        f"{row['args']}: {', '.join(different)}"
        for row in golden.rows(case)
        if (different := golden.differences(row, golden.in_process(row["args"])))
    ]
    assert found == []


def test_what_is_left_to_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders, batches without their records, small logs, one processor."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(entry(1, n, 0, 30) for n in range(50)))
    with pytest.MonkeyPatch.context() as patch:
        watched = Regions(patch, 3, 500)
        golden.in_process(["--files", str(path)])
        golden.in_process(["--files", str(path), "--value-decoder-class", "kafka.serializer.DefaultDecoder"])
        patch.setattr(dump_log_run, "processors", lambda: 1)
        golden.in_process(["--files", str(path), "--print-data-log"])
        assert watched.ends == []
    watched = Regions(monkeypatch, 3, 500)
    monkeypatch.undo()
    golden.in_process(["--files", str(path), "--print-data-log"])
    assert watched.ends == []


def test_how_many_processors_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5})
    assert dump_log_run.processors() == 3
    monkeypatch.setattr(sys, "platform", "darwin")
    assert dump_log_run.processors() == 1


# --- how it ends

COMMAND = [
    sys.executable,
    "-c",
    "import sys; from kdump.commands.dump_log import command as dump_log\n"
    "from kdump.dump_log_segments import regions, run\n"
    "run.PROCESSES_FROM, run.processors, regions.REGION_SIZE = 0, lambda: 2, 50000\n"
    "sys.exit(dump_log.main())",
]


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """A log whose text is far more than a pipe holds."""
    return write_partition(tmp_path / "t-0", segments=1, batches=400, records=50, value_size=100) / f"{0:020d}.log"


@pytest.fixture
def command(long_log: Path) -> list[str]:
    return [*COMMAND, "--files", str(long_log), "--print-data-log"]


def test_a_reader_that_goes_away_ends_it_quietly(command: list[str]) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == 0


@pytest.mark.parametrize("to_all", [False, True])
def test_an_interrupt_ends_it_with_a_whole_line(command: list[str], to_all: bool) -> None:
    whole = subprocess.run(command, capture_output=True, check=True).stdout
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        start = child.stdout.read(10)  # and no more: it waits for us, in the midst of its work
        if to_all:  # as a terminal does
            os.killpg(child.pid, signal.SIGINT)
        else:
            child.send_signal(signal.SIGINT)
        out = start + child.stdout.read()
        assert child.stderr.read() == b""
        assert child.wait() == 130
    assert len(out) < len(whole)
    assert whole.startswith(out)
    assert out.endswith(b"\n")


def test_an_interrupt_ends_it_though_nobody_reads(command: list[str]) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)
        child.send_signal(signal.SIGINT)
        assert child.wait() == 130
        assert child.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said(command: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        rb'Exception in thread "main" java.io.IOException: [^\n]*No space left on device\n', done.stderr
    )
