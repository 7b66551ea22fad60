"""`kdump dump` of the end of partitions, and of logs that have another name, are compressed, or come by a pipe."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from tests.agreement.running import Said, kdump
from tests.commands.running import Run

SPEC = """
seed: alone
topics:
  - name: orders
    partitions: 1
    config: {segment.bytes: 1500}
    steps:
      - append: {records: 50, batch_records: 4, value: {shape: text, size: 100}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "spec.yaml").write_text(SPEC)
    assert kdump(folder, "fixture", "build", "spec.yaml", "data").code == 0
    log = sorted((folder / "data" / "orders-0").glob("*.log"))[1]
    data = log.read_bytes()
    (folder / "base").write_text(str(int(log.stem)))
    (folder / "saved.bin").write_bytes(data)
    (folder / "saved.bin.gz").write_bytes(gzip.compress(data))
    half = len(data) // 2
    (folder / "saved.bin.zst").write_bytes(zstandard.compress(data[:half]) + zstandard.compress(data[half:]))
    (folder / f"{log.stem}.log.gz").write_bytes(gzip.compress(data))
    return folder


def offsets(said: Said) -> list[int]:
    return [row["offset"] for row in said.of_type("record")]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 9, 49, 50, 60])
def test_the_last_records(count: int, home: Path) -> None:
    said = kdump(home, "dump", "data/orders-0", "--tail", count, "-o", "jsonl")
    assert offsets(said) == list(range(50))[50 - min(count, 50) :]


def test_the_last_records_of_what_is_selected(home: Path) -> None:
    first = kdump(home, "dump", "data", "--offsets", "3-20", "--tail", 2, "-o", "jsonl")
    assert offsets(first) == [19, 20]
    keys = kdump(home, "dump", "data", "-o", "jsonl").of_type("record")
    key = keys[5]["key"]
    wanted = [row["offset"] for row in keys if row["key"] == key]
    assert offsets(kdump(home, "dump", "data", "--key", key, "--tail", 2, "-o", "jsonl")) == wanted[-2:]


def test_the_last_batches(home: Path) -> None:
    said = kdump(home, "dump", "data", "--batches-only", "--tail", 2, "-o", "jsonl")
    assert [row["baseOffset"] for row in said.of_type("batch")] == [44, 48]


@pytest.mark.parametrize("name", ["saved.bin", "saved.bin.gz", "saved.bin.zst"])
def test_a_log_of_any_name(name: str, home: Path) -> None:
    base = int((home / "base").read_text())
    said = kdump(home, "dump", name, "--as", "log", "--base-offset", base, "-o", "jsonl")
    assert said.code == 0, said.err
    assert offsets(said)[0] == base
    text = kdump(home, "dump", name, "--as", "log").out
    assert text.startswith(f"{name}  ")
    assert "tmp" not in text


def test_the_base_offset_is_in_the_name(home: Path) -> None:
    (name,) = (path.name for path in home.glob("*.log.gz"))
    assert offsets(kdump(home, "dump", name, "--as", "log", "-o", "jsonl"))[0] == int(name[:20])


def test_standard_input(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kdump", "dump", "-", "--as", "log", "--batches-only"],
        input=(home / "saved.bin").read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(b"standard input  ")
    assert done.stdout.count("\N{EN DASH}".encode()) > 1


@pytest.mark.parametrize("name", ["bad.gz", "bad.zst"])
def test_what_is_not_what_its_name_says(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"no archive")
    said = kdump(tmp_path, "dump", name, "--as", "log")
    assert said.code == 3
    assert f"{name}: unpacking ended with an error after 0 bytes of log: " in said.err


def test_files_that_were_packed_in_several_frames(home: Path, tmp_path: Path) -> None:
    plain = (home / "saved.bin").read_bytes()
    for suffix, pack in (("gz", gzip.compress), ("zst", zstandard.ZstdCompressor().compress)):
        (tmp_path / f"f.{suffix}").write_bytes(pack(plain[:300]) + pack(plain[300:]))
        said = kdump(tmp_path, "dump", f"f.{suffix}", "--as", "log", "-o", "jsonl")
        assert said.code == 0
        assert offsets(said) == offsets(kdump(home, "dump", "saved.bin", "--as", "log", "-o", "jsonl"))


@pytest.mark.parametrize("suffix", ["gz", "zst"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_what_can_be_unpacked_of_a_damaged_file_is_shown(home: Path, tmp_path: Path, suffix: str, damage: str) -> None:
    """Whatever the library says of it; the records before the damage may be the only ones left."""
    plain = (home / "saved.bin").read_bytes()
    packed = gzip.compress(plain * 40) if suffix == "gz" else zstandard.ZstdCompressor().compress(plain * 40)
    for at in range(len(packed) // 3, len(packed) - 1, len(packed) // 16):
        end = packed[at:] if damage == "flipped" else b""
        (tmp_path / f"f.{suffix}").write_bytes(packed[:at] + bytes(byte ^ 0x5A for byte in end[:1]) + end[1:])
        said = kdump(tmp_path, "dump", f"f.{suffix}", "--as", "log", "--batches-only")
        assert "an error in kdump itself" not in said.err
        assert said.code in (0, 1, 3)
        assert (f"f.{suffix}: unpacking ended" in said.err) == (said.code == 3)


def test_damage_is_told_by_the_name_given(home: Path, tmp_path: Path) -> None:
    data = bytearray((home / "saved.bin").read_bytes())
    data[100] ^= 1
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(data)))
    said = kdump(tmp_path, "dump", "x.gz", "--as", "log")
    assert said.code == 1
    assert said.err.startswith("kdump: x.gz: byte 0: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("saved.bin", "--base-offset", "4"), ("saved.bin", "--as", "log", "--follow"), ("data", "--as", "log"),
        ("saved.bin", "--as", "log", "--tail", "3"),
    ],
)  # fmt: skip
def test_a_command_line_that_is_wrong(arguments: tuple[str, ...], home: Path) -> None:
    assert kdump(home, "dump", *arguments).code == 2


def test_another_name_without_as_tells_of_it(home: Path) -> None:
    assert "--as log" in kdump(home, "dump", "saved.bin").err


def test_how_a_transaction_of_a_log_alone_ended_is_unknown(tmp_path: Path) -> None:
    specs = Path(__file__).parents[1] / "transcripts" / "specs"
    assert kdump(tmp_path, "fixture", "build", specs / "shop.yaml", "data").code == 0
    (tmp_path / "alone").write_bytes((tmp_path / "data/payments-0/00000000000000000000.log").read_bytes())
    said = kdump(tmp_path, "dump", "alone", "--as", "log", "--format", "jsonl")
    assert said.out.count('"transaction":"unknown"') == said.out.count('"isTransactional":true') > 0


@pytest.mark.parametrize("name", ["saved.bin", "saved.bin.gz", "saved.bin.zst"])
def test_standard_input_is_unpacked_by_what_it_begins_with(name: str, home: Path) -> None:
    command = [sys.executable, "-m", "kdump", "dump", "-", "--as", "log", "-o", "jsonl", "--no-header"]
    with open(home / name, "rb") as given:
        piped = subprocess.run(command, stdin=given, capture_output=True, text=True, check=True)
    assert piped.stdout.splitlines()[0] == kdump(home, "dump", "saved.bin", "--as", "log", "-o", "jsonl", "--no-header"
        ).out.splitlines()[0].replace("saved.bin", "standard input")


def test_standard_input_goes_with_as_log(home: Path) -> None:
    said = kdump(home, "dump", "-")
    assert (said.code, said.err.splitlines()[0]) == (2, "kdump dump: standard input (-) goes with --as log.")


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(1 << 22)))
    monkeypatch.setattr("kdump.disk.unpacked._MAX_UNPACKED", 1 << 21)
    assert run("dump", "--as", "log", tmp_path / "bomb.gz") == 3
    assert "bomb.gz unpacks to more than 2.0 MiB: unpack it where there is room" in run.err
    monkeypatch.setattr("kdump.disk.unpacked._MIN_FREE", 1 << 60)
    monkeypatch.setattr("kdump.disk.unpacked._MAX_UNPACKED", 1 << 30)
    assert run("dump", "--as", "log", tmp_path / "bomb.gz") == 3
    assert "has no room to unpack it" in run.err
