"""`dump-log` beyond what Kafka's own results cover: its command line, damage of every kind, and how it ends."""

from __future__ import annotations

import io
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump import kernels
from kdump.commands.dump_log import command as dump_log
from kdump.formats.batch import CONTROL, HEADER_SIZE, TRANSACTIONAL
from kdump.formats.codecs import GZIP, LZ4, SNAPPY, ZSTD, compress
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_wrapper
from kdump.kernels.portable import kernels as portable
from tests.commands import golden
from tests.commands.logs import batch, write_partition, write_segment
from tests.kernels.seeds import MARKER, control, framed, mended, records
from tests.sampling import sampled

COMMAND = [sys.executable, "-c", "import sys; from kdump.commands.dump_log.command import main; sys.exit(main())"]
MIB = 1 << 20
HEADROOM = 256 * MIB
"""Bytes of memory that a command may take over what starting it takes."""

SEGMENTS = {
    "v2": [
        encode_batch(records(3), NewBatch(producer_id=7, producer_epoch=1, base_sequence=(1 << 31) - 2)),
        encode_batch(records(1, 3)),
        encode_batch([control(1, MARKER)._replace(offset=4)], NewBatch(CONTROL | TRANSACTIONAL, 7, 1)),
    ],
    "v2 compressed": [
        encode_batch(records(2, 2 * index), NewBatch(codec)) for index, codec in enumerate((GZIP, SNAPPY, LZ4, ZSTD))
    ],
    "wrappers": [
        encode_wrapper([NewRecord(offset, 1000, b"key", b"value") for offset in (0, 1)], 1, GZIP),
        encode_wrapper([NewRecord(offset, 1000, None, b"value") for offset in (2, 5)], 1, LZ4, 2000),
        encode_wrapper([NewRecord(offset, 1000, b"key", b"value") for offset in (6, 7)], 0, SNAPPY),
    ],
}


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command as its users run it; in a process of its own where it has options."""
    words = [*map(str, arguments)]
    if options:
        return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False, **options)
    done = golden.in_process_unasked(words, Path.cwd())
    return subprocess.CompletedProcess(words, done.code, done.out.decode(), done.err.decode())


class InProcess:
    """The command in this process, its streams files that are used again and again."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._out = (folder / "out").open("w+b", buffering=0)
        self._err = (folder / "err").open("w+b", buffering=0)
        self._patch = monkeypatch

    def __call__(self, *arguments: str) -> tuple[int, bytes, bytes]:
        """Exit code, stdout and stderr."""
        streams = (self._out, self._err)
        for stream in streams:
            os.ftruncate(stream.fileno(), 0)
            os.lseek(stream.fileno(), 0, os.SEEK_SET)
        with self._patch.context() as patch:
            patch.setattr(sys, "argv", ["dump-log", *arguments])
            out = io.TextIOWrapper(io.BufferedWriter(self._out))
            err = io.TextIOWrapper(io.BufferedWriter(self._err))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = dump_log.main()
            for text in (out, err):
                text.flush()
                text.detach().detach()
        printed, complained = (os.pread(stream.fileno(), MIB, 0) for stream in streams)
        return code, printed, complained


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    monkeypatch.setenv("KDUMP_KAFKA", "4.0")
    return InProcess(tmp_path, monkeypatch)


# --- the command line


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ((), 1, "This tool helps to parse a log file"),
        (("--help",), 1, "This tool helps to parse a log file"),
        (("--print-data-log",), 1, 'Missing required argument "[files]"'),
        (("--nonsense",), 1, "joptsimple.UnrecognizedOptionException: nonsense is not a recognized option"),
        (("--files",), 1, "joptsimple.OptionMissingRequiredArgumentException: Option files requires an argument"),
        (("--files", "a", "--files", "b"), 1, "joptsimple.MultipleArgumentsForOptionException"),
        (("--files", "a.log", "--max-bytes", "1x"), 1, "Cannot parse argument '1x' of option max-bytes"),
        (("--files", "a.log", "--max-bytes", str(1 << 31)), 1, "joptsimple.OptionArgumentConversionException"),
        (
            ("--files", "1.index", "--max-message-size", "1x"),
            1,
            'Caused by: java.lang.NumberFormatException: For input string: "1x"\n',
        ),
        (("--files", "1.txnindex,a.b", "--max-bytes", "1x"), 0, "Ignoring unknown file a.b"),
        (("--files", "a.log", "--value-decoder-class", "com.Mine"), 1, "java.lang.ClassNotFoundException: com.Mine"),
        (("--files", "a.log", "--key-decoder-class", "StringDecoder"), 1, "Failed to load decoder class"),
        (("--files", ","), 0, ""),
        (("--files", ""), 0, "Ignoring unknown file \n"),
        (("--files", "x//y.d/"), 0, "Ignoring unknown file x/y.d\n"),
        (("--files", "00000000000000000099.checkpoint"), 1, 'NumberFormatException: For input string: "checkpoint"'),
        (("--files", "9-1.checkpoint"), 1, "StringIndexOutOfBoundsException: begin 0, end 20, length 14"),
        (("--files", "/nowhere/1.log"), 1, "java.nio.file.NoSuchFileException: /nowhere/1.log"),
        (
            ("--kafka", "4.0", "--files", "nodot"),
            1,
            "java.lang.StringIndexOutOfBoundsException: begin -1, end 5, length 5",
        ),
        (("--files", "x.log"), 1, 'java.lang.NumberFormatException: For input string: "x"'),
    ],
)
def test_a_wrong_command_line(arguments: tuple[str, ...], code: int, error: str) -> None:
    done = process(*arguments)
    assert done.returncode == code
    assert error in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version() -> None:
    done = process("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"[0-9.]+ \(kdump\)\n", done.stdout)


def test_every_option_is_in_the_help() -> None:
    from kdump.commands.dump_log.options import OPTIONS

    text = process("--help").stderr
    assert all(re.search(rf"^--{option.name}\b", text, re.MULTILINE) for option in OPTIONS)


def test_an_unknown_file_is_reported_at_the_end(tmp_path: Path) -> None:
    log = write_segment(tmp_path / "t-0", 0, [batch(0, 1)], indexes=False)
    done = process("--files", f"{tmp_path}/a.txt,{log}")
    assert (done.returncode, done.stderr) == (0, f"Ignoring unknown file {tmp_path}/a.txt\n")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        f"Dumping {tmp_path}/a.txt", f"Dumping {log}", "Log starting offset", "baseOffset",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("decoder", "value", "shown"),
    [
        ("LongDecoder", (-5).to_bytes(8, "big", signed=True), "payload: -5"),
        ("org.apache.kafka.tools.api.IntegerDecoder", (7).to_bytes(4, "big"), "payload: 7"),
        ("org.apache.kafka.tools.api.StringDecoder", b"text", "payload: text"),
    ],
)
def test_decoders(tmp_path: Path, decoder: str, value: bytes, shown: str) -> None:
    name = decoder if "." in decoder else f"org.apache.kafka.tools.api.{decoder}"
    log = write_segment(tmp_path / "t-0", 0, [encode_batch([NewRecord(0, 1, b"key", value)])], indexes=False)
    done = process("--files", log, "--value-decoder-class", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f" key: key {shown}\n")


def test_a_value_too_short_for_its_decoder(tmp_path: Path) -> None:
    log = write_segment(tmp_path / "t-0", 0, [encode_batch([NewRecord(0, 1, None, b"abc")])], indexes=False)
    done = process("--files", log, "--value-decoder-class", "org.apache.kafka.tools.api.LongDecoder")
    assert done.returncode == 1
    assert done.stderr == 'Exception in thread "main" java.nio.BufferUnderflowException\n'


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("sound_first", [True, False])
def test_more_records_than_an_array_holds(tmp_path: Path, codec: int, sound_first: bool) -> None:
    """Kafka makes a list for as many records as a compressed batch says, before it reads the first."""
    too_many = framed(encode_batch(records(1))[HEADER_SIZE:], (1 << 31) - 1, codec)
    batches = [encode_batch(records(2), NewBatch(codec)), too_many]
    log = write_segment(tmp_path / "t-0", 0, batches[not sound_first :], indexes=False)
    done = process("--files", log, "--deep-iteration")
    text = "java.lang.OutOfMemoryError: Requested array size exceeds VM limit"
    assert (done.returncode, done.stderr) == (1, f'Exception in thread "main" {text}\n')


def test_no_payload_to_decompress(tmp_path: Path) -> None:
    empty = mended(encode_batch(records(1), NewBatch(SNAPPY))[:HEADER_SIZE])
    done = process("--files", write_segment(tmp_path / "t-0", 0, [empty], indexes=False), "--deep-iteration")
    cause = "org.xerial.snappy.SnappyIOException: [EMPTY_INPUT] Cannot decompress empty stream"
    text = f"org.apache.kafka.common.KafkaException: {cause}"
    assert (done.returncode, done.stderr) == (1, f'Exception in thread "main" {text}\nCaused by: {cause}\n')


def test_the_old_names_of_decoders(tmp_path: Path) -> None:
    """3.9 prints a word on them for each log; from 4.0 on there are none of these classes."""
    value = encode_batch([NewRecord(0, 1, b"key", (7).to_bytes(4, "big"))])
    log = write_segment(tmp_path / "t-0", 0, [value], indexes=False)
    old, new = "kafka.serializer.IntegerDecoder", "org.apache.kafka.tools.api.IntegerDecoder"
    arguments = ("--files", log, "--value-decoder-class", old)
    done = process("--kafka", "3.9", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Dumping {log}\n{old} is deprecated. Please use {new} instead\nLog starting" in done.stdout
    assert done.stdout.endswith(" key: key payload: 7\n")
    done = process("--kafka", "4.0", *arguments)
    assert (done.returncode, done.stdout) == (1, f"Dumping {log}\n")
    assert done.stderr == f'Exception in thread "main" java.lang.ClassNotFoundException: {old}\n'


def test_missing_index_files_are_not_made(tmp_path: Path) -> None:
    log = write_segment(tmp_path / "t-0", 0, [batch(0, 1)], indexes=False)
    for name in (log, log.with_suffix(".timeindex"), log.with_suffix(".index"), log.with_suffix(".txnindex")):
        process("--files", name)
    assert [path.name for path in log.parent.iterdir()] == [log.name]


# --- damage


@pytest.fixture(params=[*({kernels.active} - {"portable"}), "portable"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each set of kernels that is built here, in use."""
    if request.param == "portable":
        for name in ("LogText", "check", "crc32", "crc32c", "decode", "find_batch", "walk"):
            monkeypatch.setattr(kernels, name, getattr(portable, name))
    return str(request.param)


@pytest.fixture
def _little_memory() -> Iterator[None]:
    """No room for what a damaged length asks for, where the system can say how much is in use."""
    usage = Path("/proc/self/statm")
    if not usage.exists():
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(usage.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def check_end(code: int, out: bytes, err: bytes) -> None:
    """A report and 0, or an exception with its causes and 1; never a traceback of ours."""
    assert code in (0, 1)
    if code:
        said = rb"[a-z]+(\.[A-Za-z0-9]+)+(: [^\n]*)?\n"
        assert re.fullmatch(rb'Exception in thread "main" ' + said + b"(Caused by: " + said + b")*", err), err
    else:
        assert re.fullmatch(rb"(Non-consecutive offsets in [^\n]*\n(  -?\d+ is followed by -?\d+\n)+)?", err), err
    assert out.startswith(b"Dumping ")


@pytest.mark.slow
@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.usefixtures("_little_memory")
def test_every_bit_flip(name: str, kernel: str, tmp_path: Path, dump: InProcess) -> None:
    """The portable kernels, which give what the others give (tests/kernels), see one bit of each byte."""
    data = b"".join(SEGMENTS[name])
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    arguments = ("--files", str(path), "--print-data-log")
    sound = dump(*arguments)
    assert sound[0] == 0
    died = 0
    with path.open("r+b", buffering=0) as file:
        for at in range(len(data)):
            for bit in (at % 8,) if kernel == "portable" else range(8):
                os.pwrite(file.fileno(), bytes((data[at] ^ 1 << bit,)), at)
                code, out, err = dump(*arguments)
                check_end(code, out, err)
                assert (code, out, err) != sound  # it shows at least in the CRC
                died += code
            os.pwrite(file.fileno(), data[at : at + 1], at)
    assert dump(*arguments) == sound
    assert died > (10 if kernel == "portable" else 100)


@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.usefixtures("_little_memory", "kernel")
def test_every_truncation(name: str, tmp_path: Path, dump: InProcess) -> None:
    """What is left whole is printed as before, and the rest counted."""
    entries = SEGMENTS[name]
    ends = [sum(map(len, entries[:number])) for number in range(len(entries) + 1)]
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(entries))
    arguments = ("--files", str(path), "--print-data-log")
    _, sound, _ = dump(*arguments)
    for size in range(ends[-1], -1, -1):
        os.truncate(path, size)
        code, out, err = dump(*arguments)
        check_end(code, out, err)
        assert code == 0
        left = size - max(end for end in ends if end <= size)
        note = f"Found {left} invalid bytes at the end of {path.name}\n".encode() if left else b""
        assert sound.startswith(out.removesuffix(note))
        assert out.endswith(note)


@pytest.mark.parametrize("where", sampled([4, 100, 1000], 1))
def test_the_kernels_print_the_same_of_damaged_logs(where: int, tmp_path: Path, dump: InProcess) -> None:
    if kernels.active != "native":
        pytest.skip("the native kernels are not built, or not chosen")
    data = bytearray(b"".join(data for entries in SEGMENTS.values() for data in entries) * 2)
    path = tmp_path / f"{0:020d}.log"
    for at in range(where % len(data), len(data), 7):
        data[at] ^= 0x55
        path.write_bytes(data)
        data[at] ^= 0x55
        native = dump("--files", str(path), "--print-data-log")
        with pytest.MonkeyPatch.context() as patch:
            for name in ("LogText", "check", "crc32", "crc32c", "decode", "find_batch", "walk"):
                patch.setattr(kernels, name, getattr(portable, name))
            assert dump("--files", str(path), "--print-data-log") == native


BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: framed(b"", 1, GZIP)[:61] + compress(GZIP, bytes(MIB)) * 1100,
    "zstd": lambda: framed(b"", 1, ZSTD)[:61] + compress(ZSTD, bytes(MIB)) * 1100,
}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs a limit on memory that holds")
@pytest.mark.parametrize("codec", BOMBS)
@pytest.mark.parametrize("memory", sampled([64 * MIB, 110 * MIB, 130 * MIB, 200 * MIB, HEADROOM], 1))
def test_a_bomb_in_little_memory(codec: str, memory: int, tmp_path: Path) -> None:
    """More than the limit of 1 GiB, in a process that may not even have that much: said in a line, and no crash."""
    log = write_segment(tmp_path / "t-0", 0, [batch(0, 1), mended(BOMBS[codec]())], indexes=False)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    done = process("--files", log, "--deep-iteration", preexec_fn=limit)
    assert done.returncode == 1
    assert re.fullmatch(r'Exception in thread "main" [^\n]*\n', done.stderr)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()[1:]] == [
        "Log starting offset", "baseOffset", "| offset", "baseOffset",
    ]  # fmt: skip


# --- how it ends


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """A log whose text is far more than a pipe holds."""
    return write_partition(tmp_path / "t-0", segments=1, batches=400, records=50, value_size=100) / f"{0:020d}.log"


def test_a_reader_that_goes_away_ends_it_quietly(long_log: Path) -> None:
    arguments = [*COMMAND, "--files", str(long_log), "--print-data-log"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == 0


def test_an_interrupt_ends_it_with_a_whole_line(long_log: Path) -> None:
    arguments = [*COMMAND, "--files", str(long_log), "--print-data-log"]
    whole = subprocess.run(arguments, capture_output=True, check=True).stdout
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        start = child.stdout.read(10)  # and no more: it waits for us, in the midst of its work
        child.send_signal(signal.SIGINT)
        out = start + child.stdout.read()
        assert child.stderr.read() == b""
        assert child.wait() == 130
    assert len(out) < len(whole)
    assert whole.startswith(out)
    assert out.endswith(b"\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said(long_log: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, "--files", long_log], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr == b'Exception in thread "main" java.io.IOException: No space left on device\n'


@pytest.mark.skipif(kernels.active != "native", reason="the portable kernels are far from this start anyway")
def test_what_a_small_file_does_not_wait_for(tmp_path: Path) -> None:
    """Modules that cost more than the dump of a small file, and are not needed for it."""
    log = write_segment(tmp_path / "t-0", 0, [batch(0, 1)], indexes=False)
    program = (
        "import sys; from kdump.commands.dump_log.command import main; main();"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--files", log], capture_output=True, text=True, check=True
    )
    heavy = {"ast", "click", "dataclasses", "hashlib", "inspect", "json", "logging", "rich", "threading", "zstandard"}
    assert not heavy & set(done.stderr.split())
