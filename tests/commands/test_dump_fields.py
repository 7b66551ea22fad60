"""`kdump dump --at --fields`: one batch field by field."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kdump.formats.batch import HEADER
from tests.agreement.running import Said, kdump

CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
SPECS = Path(__file__).resolve().parents[1] / "transcripts" / "specs"
DAMAGED = "four/orders-7/00000000000000000270.log"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    assert kdump(folder, "fixture", "build", SPECS / "four.yaml", "four").code == 0
    return folder


def row(said: Said) -> dict[str, object]:
    (found,) = said.of_type("batchFields")
    return found


def test_a_damaged_batch(home: Path) -> None:
    said = kdump(home, "dump", DAMAGED, "--at", 772, "--fields")
    lines = said.out.splitlines()
    assert said.code == 1
    assert lines[0] == "batch 275\N{EN DASH}279, 797 bytes: BAD CRC"
    assert lines[1].split() == ["BYTE", "FIELD", "BYTES", "VALUE"]
    assert lines[2].split()[:2] == ["772", "baseOffset"]
    assert "computed: " in lines[6]
    assert lines[-3].startswith("One flipped bit explains it: byte ")
    assert lines[-1] == "Restore it: kdump repair four/orders-7 --fix-bit (loses nothing)"
    assert all(len(line) <= 80 for line in lines)


def test_the_bit_that_is_named_is_the_one(home: Path) -> None:
    found = row(kdump(home, "dump", DAMAGED, "--at", 772, "--fields", "--format", "jsonl"))
    flipped = found["flippedBit"]
    assert isinstance(flipped, dict)
    path = home / DAMAGED
    data = bytearray(path.read_bytes())
    data[flipped["position"]] = flipped["byte"]
    path.with_name(f"{270:020d}.log").write_bytes(data)
    assert kdump(home, "dump", DAMAGED, "--at", 772, "--fields").code == 0
    data[flipped["position"]] ^= 1 << flipped["bit"]
    path.write_bytes(data)


def test_fields_are_those_of_the_header(home: Path) -> None:
    found = row(kdump(home, "dump", "four/orders-0/00000000000000000000.log", "--fields", "--format", "jsonl"))
    assert found["isValid"] is True
    fields = found["fields"]
    assert isinstance(fields, list)
    data = (home / "four/orders-0/00000000000000000000.log").read_bytes()
    assert tuple(each["value"] for each in fields) == HEADER.unpack_from(data)
    assert b"".join(bytes.fromhex(each["bytes"]) for each in fields) == data[: HEADER.size]
    records = found["records"]
    assert isinstance(records, list)
    assert [each["offset"] for each in records] == [0, 1, 2, 3, 4]
    assert records[0]["position"] == HEADER.size
    assert records[-1]["position"] + records[-1]["length"] == found["length"]


@pytest.mark.parametrize("log", sorted(CORPUS.glob("[a-h]*/*/*.log")), ids=lambda path: path.parts[-3])
def test_every_kind_of_batch(log: Path) -> None:
    if log.stat().st_size == 0:
        return
    said = kdump(log.parent, "dump", log.name, "--fields", "--format", "jsonl")
    found = row(said)
    assert (said.code, found["isValid"], found["fault"]) == (0, True, None)
    assert found["records"]


def test_an_incomplete_batch(home: Path) -> None:
    path = home / "four/clicks-2/00000000000000000220.log"
    said = kdump(home, "dump", path, "--fields")
    assert said.code == 1
    assert "Not all of it can be read: the log ends inside the batch: 664 of 1327 bytes are there." in said.out
    assert "flipped" not in said.out


def test_where_no_batch_is(home: Path) -> None:
    for at in (5, 10_000_000):
        said = kdump(home, "dump", DAMAGED, "--at", at, "--fields")
        assert said.code == 3
        assert "no batch starts here" in said.err
    assert kdump(home, "dump", DAMAGED, "--at", 5).code == 2
    assert kdump(home, "dump", "four/orders-7", "--fields").code == 2


def test_a_damaged_batch_of_a_log_under_another_name(home: Path) -> None:
    data = (home / DAMAGED).read_bytes()
    (home / "saved.bin").write_bytes(data)
    (home / "saved.bin.gz").write_bytes(gzip.compress(data))
    known = kdump(home, "dump", DAMAGED, "--at", 772, "--fields").out.splitlines()
    for name in ("saved.bin", "saved.bin.gz"):
        said = kdump(home, "dump", name, "--as", "log", "--at", 772, "--fields")
        assert (said.code, said.out.splitlines()) == (1, known[:-1]), "without a partition there is none to repair"
    said = kdump(home, "dump", "saved.bin.gz", "--as", "log", "--at", 5, "--fields")
    assert (said.code, said.err) == (3, "kdump: saved.bin.gz: byte 5: no batch starts here (size field 2, magic 0)\n")


def test_a_batch_that_the_log_ends_in(home: Path) -> None:
    log = "four/clicks-2/00000000000000000220.log"
    lines = kdump(home, "dump", log, "--at", 0, "--fields").out.splitlines()
    assert lines[0] == "batch 220\N{EN DASH}239, 1327 bytes: INCOMPLETE"
    assert lines[-1] == "Not all of it can be read: the log ends inside the batch: 664 of 1327 bytes are there."
