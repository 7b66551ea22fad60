"""Rendering: the lines that Kafka's dump tool prints, to the byte, also when something breaks on the way."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats import faults
from kdump.formats.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.formats.codecs import LZ4
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message
from kdump.formats.faults import DamageError, Fault
from kdump.formats.java_utf8 import java_utf8
from kdump.storage.payloads import inflate
from tests.kernels.faulty import UNPRINTABLE, UNREADABLE, Faulty
from tests.kernels.golden import GOLDEN
from tests.kernels.reading import KERNELS, NATIVE, only_native, walked
from tests.kernels.seeds import CONTROLS, MARKER, MAX_OFFSET, control, mend_checksums, mended, records

FLUSH_SIZE = 1 << 18
DEEP, DATA, BARE = (True, False, False), (True, True, False), (True, True, True)


def kraft_text(number: int, value: bytes | None) -> bytes:
    return f"Kraft{number} {None if value is None else value.hex()}".encode()


class Printed:
    """A log as text: what was written, the fault, and the gaps between offsets."""

    def __init__(
        self,
        kernel: ModuleType,
        data: bytes,
        options: tuple[bool, bool, bool] = DATA,
        control: Callable[[int, bytes | None], bytes] = kraft_text,
    ) -> None:
        self.pieces: list[bytes] = []
        self.fault: Fault | None = None
        self._text = kernel.LogText(*options, control)
        block = walked(kernel, data, rows=64)
        row = 0
        while row < block.length and not self.fault:
            inflated = inflate(block, row)
            self.fault = self._text.render(block, row, inflated.stop, inflated.payloads, self.write) or inflated.fault
            row = inflated.stop

    def write(self, piece: memoryview) -> None:
        self.pieces.append(bytes(piece))

    @property
    def text(self) -> str:
        return b"".join(self.pieces).decode()

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")[:-1]

    @property
    def gaps(self) -> list[int]:
        return list(self._text.gaps)


def golden(name: str) -> bytes:
    return next(golden.data for golden in GOLDEN if golden.name == name)


V2_LINE = (
    "baseOffset: 5 lastOffset: 5 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1"
    " partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty"
    " position: 0 CreateTime: 1000 size: 70 magic: 2 compresscodec: none crc: 1902797193 isvalid: true"
)
_MESSAGES = "offset: 5 position:"
V1_LINE = f"{_MESSAGES} 70 CreateTime: 1000 size: 36 magic: 1 compresscodec: none crc: 3840090556 isvalid: true"
V0_LINE = f"{_MESSAGES} 106 NoTimestampType: -1 size: 27 magic: 0 compresscodec: none crc: 3524050933 isvalid: true"
V2_RECORD = "| offset: 5 CreateTime: 1000 keySize: 1 valueSize: 1 sequence: -1 headerKeys: []"
V1_RECORD = "| offset: 5 CreateTime: 1000 keySize: 1 valueSize: 1 isValid: true crc: 3840090556}"
V0_RECORD = "| offset: 5 NoTimestampType: -1 keySize: -1 valueSize: 1 isValid: true crc: 3524050933}"
KEY_VALUE, VALUE = " key: k payload: v", " payload: v"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((False, False, False), [V2_LINE, V1_LINE, V0_LINE]),
        (DEEP, [V2_LINE, V2_RECORD, V1_LINE, V1_RECORD, V0_LINE, V0_RECORD]),
        (
            DATA,
            [V2_LINE, V2_RECORD + KEY_VALUE, V1_LINE, V1_RECORD + KEY_VALUE, V0_LINE, V0_RECORD + VALUE],
        ),
        (BARE, [V2_LINE, "|" + KEY_VALUE, V1_LINE, "|" + KEY_VALUE, V0_LINE, VALUE]),
        ((True, False, True), [V2_LINE, "", V1_LINE, "", V0_LINE, ""]),
        ((False, True, True), [V2_LINE, V1_LINE, V0_LINE]),
    ],
)
def test_lines_of_every_version(kernel: ModuleType, options: tuple[bool, bool, bool], expected: list[str]) -> None:
    printed = Printed(kernel, golden("v2") + golden("v1") + golden("v0"), options)
    assert printed.lines == expected
    assert printed.fault is None


def test_wrappers_print_the_messages_inside(kernel: ModuleType) -> None:
    printed = Printed(kernel, golden("v0 wrapper (lz4 with the old header checksum)") + golden("v1 wrapper (lz4)"))
    assert printed.lines == [
        "offset: 0 position: 0 NoTimestampType: -1 size: 61 magic: 0 compresscodec: lz4 crc: 3556035226 isvalid: true",
        "| offset: 0 NoTimestampType: -1 keySize: 1 valueSize: 1 isValid: true crc: 535615242} key: k payload: v",
        "offset: 0 position: 61 CreateTime: 1000 size: 75 magic: 1 compresscodec: lz4 crc: 66545045 isvalid: true",
        "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 1 isValid: true crc: 3840090556} key: k payload: v",
    ]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({"attributes": TRANSACTIONAL}, "isTransactional: true isControl: false"),
        ({"attributes": LOG_APPEND_TIME, "max_timestamp": 77}, "LogAppendTime: 77"),
        ({"attributes": DELETE_HORIZON, "base_timestamp": 99}, "deleteHorizonMs: OptionalLong[99]"),
        ({"producer_id": 9, "producer_epoch": 3}, "producerId: 9 producerEpoch: 3"),
        ({"base_sequence": 8, "last_offset": 5}, "lastOffset: 5 count: 2 baseSequence: 8 lastSequence: 13"),
        ({"base_sequence": MAX_OFFSET >> 32}, "baseSequence: 2147483647 lastSequence: 0"),
        ({"leader_epoch": -7}, "partitionLeaderEpoch: -7"),
        ({"attributes": 4}, "compresscodec: zstd"),
    ],
)
def test_fields_of_a_batch_line(kernel: ModuleType, header: dict[str, int], expected: str) -> None:
    assert expected in Printed(kernel, encode_batch(records(2), NewBatch(**header))).lines[0]


def test_an_invalid_checksum_is_said_and_the_records_printed(kernel: ModuleType) -> None:
    data = golden("v2")[:-2] + b"w\0" + golden("v1")[:-1] + b"w"
    lines = Printed(kernel, data).lines
    assert lines[0].endswith("crc: 1902797193 isvalid: false")
    assert lines[1].endswith("key: k payload: w")
    assert lines[3].endswith("isValid: false crc: 3840090556} key: k payload: w")


def test_header_names(kernel: ModuleType) -> None:
    record = NewRecord(0, 1, None, None, ((b"a", b"x"), (b"", None), (b"\xc3", b""), ("ü".encode(), b"y")))
    assert Printed(kernel, encode_batch([record])).lines[1].endswith("sequence: -1 headerKeys: [a,,\ufffd,ü]")


@pytest.mark.parametrize("magic", [1, 2])
def test_empty_is_not_null(kernel: ModuleType, magic: int) -> None:
    def lines(key: bytes | None, value: bytes | None) -> tuple[str, str]:
        record = NewRecord(0, 1, key, value)
        data = encode_batch([record]) if magic == 2 else encode_message(record, 1)
        bare = Printed(kernel, data, BARE).lines[1]
        full = Printed(kernel, data).lines[1]
        return bare, full[full.index("keySize") :].partition(" sequence")[0].partition(" isValid")[0]

    assert lines(b"", b"") == ("| key:  payload: ", "keySize: 0 valueSize: 0")
    assert lines(None, b"") == (" payload: ", "keySize: -1 valueSize: 0")
    assert lines(b"", None) == ("| key: ", "keySize: 0 valueSize: -1")
    assert lines(None, None) == ("", "keySize: -1 valueSize: -1")


# --- control records


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("abort", " endTxnMarker: ABORT coordinatorEpoch: 3"),
        ("commit", " endTxnMarker: COMMIT coordinatorEpoch: 3"),
        ("leader change", " Kraft2 00000000000102000000010000"),
        ("snapshot header", " Kraft3 0000000000000000271000"),
        ("snapshot footer", " Kraft4 000000"),
        ("kraft version", " Kraft5 0000000100"),
        ("voters", " Kraft6 00000100"),
        ("unknown control", " controlType: UNKNOWN(77)"),
    ],
)
def test_control_records(kernel: ModuleType, name: str, expected: str) -> None:
    data = encode_batch([CONTROLS[name]], NewBatch(attributes=CONTROL))
    for options in (DEEP, DATA):
        assert Printed(kernel, data, options).lines[1].partition("[]")[2] == expected
    assert Printed(kernel, data, BARE).lines[1] == ""


def test_control_records_without_value_or_with_odd_types(kernel: ModuleType) -> None:
    def detail(record: NewRecord) -> str:
        return Printed(kernel, encode_batch([record], NewBatch(attributes=CONTROL))).lines[1].partition("[]")[2]

    assert detail(control(4, b"")._replace(value=None)) == " Kraft4 None"
    assert detail(NewRecord(0, 1, bytes.fromhex("0000ffff"), b"")) == " controlType: UNKNOWN(-1)"
    assert detail(NewRecord(0, 1, bytes.fromhex("0007000133"), MARKER + b"more")) == (
        " endTxnMarker: COMMIT coordinatorEpoch: 3"
    )


# --- damage


@pytest.mark.parametrize("faulty", UNREADABLE, ids=lambda faulty: faulty.name)
def test_every_fault_ends_the_text(kernel: ModuleType, faulty: Faulty) -> None:
    printed = Printed(kernel, golden("v2") + faulty.data, BARE)
    assert printed.text.startswith(f"{V2_LINE}\n|{KEY_VALUE}\n")
    if faulty.name == "a wrapper of magic -1":  # its own line cannot be finished
        assert printed.fault == (faults.LEGACY_MAGIC, -1, 0)
    else:
        assert printed.fault == faulty.fault


@pytest.mark.parametrize("faulty", UNPRINTABLE, ids=lambda faulty: faulty.name)
def test_every_fault_that_only_printing_meets(kernel: ModuleType, faulty: Faulty) -> None:
    printed = Printed(kernel, golden("v2") + faulty.data)
    assert printed.fault == faulty.fault
    assert printed.text.startswith(f"{V2_LINE}\n{V2_RECORD}{KEY_VALUE}\n")


def test_sizes_are_read_before_keys_are(kernel: ModuleType) -> None:
    """So it depends on the options where damage is met first."""
    faulty = next(faulty for faulty in UNREADABLE if faulty.name == "a v1 key over the end")
    assert Printed(kernel, faulty.data, BARE).fault == (faults.LEGACY_LIMIT, 7, 6)
    assert Printed(kernel, faulty.data, DATA).fault == (faults.OUT_OF_BOUNDS, 29, 24)
    assert Printed(kernel, faulty.data, DEEP).fault == (faults.OUT_OF_BOUNDS, 29, 24)


def test_what_was_rendered_before_damage_is_written(kernel: ModuleType) -> None:
    magic = Printed(kernel, mended(bytearray(golden("v1")[:16] + b"\xff" + golden("v1")[17:])))
    assert (magic.text, magic.fault) == ("offset: 5", (faults.LEGACY_MAGIC, -1, 0))
    marker = Printed(kernel, encode_batch([control(1, MARKER[:5])], NewBatch(attributes=CONTROL)))
    assert marker.fault == (faults.MARKER_SIZE, 5, 0)
    line = "| offset: 9 CreateTime: 1700000000000 keySize: 4 valueSize: 5 sequence: -1 headerKeys: []"
    assert marker.text.endswith("\n" + line)


def test_a_damaged_compressed_batch_prints_no_record(kernel: ModuleType) -> None:
    """Kafka decodes a compressed batch before it prints the first of its records."""
    name = "a record that ends before its length"
    damaged = next(faulty for faulty in UNREADABLE if faulty.name == name)
    assert len(Printed(kernel, damaged.data).lines) == 2
    name = "the same, compressed"
    damaged = next(faulty for faulty in UNREADABLE if faulty.name == name)
    assert len(Printed(kernel, damaged.data).lines) == 1


@pytest.mark.parametrize("size", [10, 1000], ids=["small", "large"])
def test_damage_at_the_end_of_a_compressed_batch_of_any_size(kernel: ModuleType, size: int) -> None:
    """Nothing of it is shown, and no gap inside it is remembered; what comes next goes on from what came before."""

    def spaced(first: int, step: int) -> list[NewRecord]:
        return [NewRecord(first + step * number, 1, None, bytes(size)) for number in range(200)]

    packed = NewBatch(attributes=LZ4)
    good, damaged = encode_batch(spaced(0, 2), packed), bytearray(encode_batch(spaced(400, 3), packed))
    damaged[57:61] = (201).to_bytes(4, "big")
    mend_checksums(damaged)
    printed = Printed(kernel, good + bytes(damaged))
    assert printed.fault == (faults.PREMATURE_END, 0, 0)
    assert [line.partition(":")[0] for line in printed.lines] == ["baseOffset", *["| offset"] * 200, "baseOffset"]
    assert printed.gaps == [number for first in range(0, 398, 2) for number in (first, first + 2)]


def test_damage_that_the_control_callback_finds(kernel: ModuleType) -> None:
    def failing(number: int, value: bytes | None) -> bytes:
        raise DamageError(faults.CONTROL_SCHEMA, number)

    data = golden("v2") + encode_batch([CONTROLS["voters"]], NewBatch(attributes=CONTROL))
    printed = Printed(kernel, data, control=failing)
    assert printed.fault == (faults.CONTROL_SCHEMA, 6, 0)
    assert printed.text.endswith("headerKeys: []")


def test_another_exception_of_the_control_callback(kernel: ModuleType) -> None:
    def failing(number: int, value: bytes | None) -> bytes:
        raise LookupError("voters")

    block = walked(kernel, golden("v2") + encode_batch([CONTROLS["voters"]], NewBatch(attributes=CONTROL)))
    pieces: list[bytes] = []
    text = kernel.LogText(*DATA, failing)
    with pytest.raises(LookupError, match="voters"):
        text.render(block, 0, 2, [None, None], lambda piece: pieces.append(bytes(piece)))
    assert b"".join(pieces).startswith(V2_LINE.encode())
    assert b"".join(pieces).endswith(b"headerKeys: []")


# --- writing


def test_a_failing_write_ends_the_rendering_and_leaves_nothing_behind(kernel: ModuleType) -> None:
    block = walked(kernel, golden("v2"))
    text = kernel.LogText(*DATA, kraft_text)

    def failing(piece: memoryview) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        text.render(block, 0, 1, [None], failing)
    pieces: list[bytes] = []
    assert text.render(block, 0, 1, [None], lambda piece: pieces.append(bytes(piece))) is None
    assert b"".join(pieces).decode() == f"{V2_LINE}\n{V2_RECORD}{KEY_VALUE}\n"


def test_pieces_cannot_be_kept(kernel: ModuleType) -> None:
    """Their memory is used again."""
    kept: list[memoryview] = []
    kernel.LogText(False, False, False, kraft_text).render(walked(kernel, golden("v2")), 0, 1, [None], kept.append)
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0])


def test_much_text_comes_in_pieces(kernel: ModuleType) -> None:
    record = NewRecord(0, 1, b"k", b"v" * 1000)
    single = encode_batch([record]) * 60
    many = encode_batch([record._replace(offset=offset) for offset in range(600)])
    packed = encode_batch([record._replace(offset=offset) for offset in range(600)], NewBatch(attributes=LZ4))
    for data in (single * 10, many, packed):
        pieces = Printed(kernel, data[: 60 * len(single)]).pieces
        assert all(FLUSH_SIZE <= len(piece) <= FLUSH_SIZE + 2000 for piece in pieces[:-1])
        assert b"".join(pieces).count(b"payload: " + b"v" * 1000 + b"\n") == (64 if data[:100] == single[:100] else 600)


def test_a_large_value_with_malformed_bytes_grows_in_the_output(kernel: ModuleType) -> None:
    data = encode_batch([NewRecord(0, 1, b"\xff" * 100_000, b"\xff" * 300_000)])
    assert Printed(kernel, data, BARE).text.endswith(f"| key: {'�' * 100_000} payload: {'�' * 300_000}\n")


# --- gaps


def test_gaps_between_offsets(kernel: ModuleType) -> None:
    def entry(offset: int) -> bytes:
        return encode_batch([NewRecord(offset, 1, None, None)])

    assert Printed(kernel, b"".join(map(entry, (7, 8, 9)))).gaps == []
    assert Printed(kernel, b"".join(map(entry, (7, 9, 8, 9)))).gaps == [7, 9, 9, 8]
    assert Printed(kernel, encode_batch(records(3, 10, 4))).gaps == [10, 14, 14, 18]
    assert Printed(kernel, b"".join(map(entry, (7, 9))), (False, False, False)).gaps == []
    assert Printed(kernel, b"".join(map(entry, (-1, 9, 10)))).gaps == []  # as after -1, which stands for no record yet
    assert Printed(kernel, b"".join(map(entry, (MAX_OFFSET, -(1 << 63))))).gaps == []  # consecutive for Java
    messages = b"".join(encode_message(NewRecord(offset, 1, None, None), 1) for offset in (3, 3, 4))
    assert Printed(kernel, messages).gaps == [3, 3]


def test_gaps_are_kept_between_blocks(kernel: ModuleType) -> None:
    text = kernel.LogText(*DEEP, kraft_text)
    for offset in (5, 7):
        block = walked(kernel, encode_batch([NewRecord(offset, 1, None, None)]))
        text.render(block, 0, 1, [None], bytes)
    assert list(text.gaps) == [5, 7]


def test_gaps_after_a_known_offset(kernel: ModuleType) -> None:
    text = kernel.LogText(*DEEP, kraft_text)
    assert (text.first_offset, text.last_offset, list(text.gaps)) == (None, -1, [])
    block = walked(kernel, encode_batch(records(2, 5, 3)))
    text.render(block, 0, 1, [None], bytes)
    assert (text.first_offset, text.last_offset, list(text.gaps)) == (5, 8, [5, 8])
    text.restart(4)
    assert (text.first_offset, text.last_offset, list(text.gaps)) == (None, 4, [])
    text.render(block, 0, 1, [None], bytes)
    assert (text.first_offset, text.last_offset, list(text.gaps)) == (5, 8, [5, 8])
    text.restart(5)
    text.render(block, 0, 1, [None], bytes)
    assert list(text.gaps) == [5, 5, 5, 8]
    text.restart()
    text.render(walked(kernel, encode_batch(records(2, -1))), 0, 1, [None], bytes)
    assert (text.first_offset, text.last_offset, list(text.gaps)) == (-1, 0, [])


# --- text that is held


def test_text_is_held_until_it_is_flushed(kernel: ModuleType) -> None:
    block = walked(kernel, encode_batch([NewRecord(0, 1, b"k", b"v" * 1000)]) * 600, rows=600)
    pieces: list[bytes] = []

    def write(piece: memoryview) -> None:
        pieces.append(bytes(piece))

    kernel.LogText(*DATA, kraft_text).render(block, 0, 600, [None] * 600, write)
    expected = b"".join(pieces)
    pieces.clear()
    text = kernel.LogText(*DATA, kraft_text, hold=True)
    for first in range(0, 600, 100):
        text.render(block, first, first + 100, [None] * 100, write)
    assert pieces == []
    assert text.held == len(expected) > FLUSH_SIZE
    text.flush(write)
    assert pieces == [expected]
    assert text.held == 0
    text.flush(write)
    assert len(pieces) == 1


def test_text_that_is_held_can_be_forgotten(kernel: ModuleType) -> None:
    block = walked(kernel, golden("v2"))
    pieces: list[bytes] = []
    text = kernel.LogText(*DATA, kraft_text, hold=True)
    text.render(block, 0, 1, [None], bytes)
    text.restart()
    assert text.held == 0
    text.render(block, 0, 1, [None], bytes)
    text.flush(lambda piece: pieces.append(bytes(piece)))
    assert b"".join(pieces).decode() == f"{V2_LINE}\n{V2_RECORD}{KEY_VALUE}\n"


# --- numbers and texts


NUMBERS = sorted({sign * (10**digits + more) for digits in range(19) for sign in (1, -1) for more in (-1, 0, 1)})


def test_numbers_of_every_length(kernel: ModuleType) -> None:
    for number in (*NUMBERS, MAX_OFFSET, -MAX_OFFSET - 1):
        line = Printed(kernel, encode_message(NewRecord(number, number, None, None), 1)).lines[0]
        assert line.startswith(f"offset: {number} position: 0 CreateTime: {number} size: ")


def text_through(kernel: ModuleType, data: bytes) -> bytes:
    """`data` as it comes out as a key, which all other texts must equal."""
    record = NewRecord(0, 1, data, data, ((data, None), (data, data)))
    pieces: list[bytes] = []
    block = walked(kernel, encode_batch([record]) + encode_message(record, 1))
    kernel.LogText(*BARE, kraft_text).render(block, 0, 2, [None, None], lambda piece: pieces.append(bytes(piece)))
    whole = b"".join(pieces)
    start = whole.index(b"\n| key: ") + 8
    # between the key's start and the next batch line: text, " payload: ", text, "\n"
    length = (whole.rindex(b"\noffset: ") - start - len(b" payload: ")) // 2
    text = whole[start : start + length]
    assert whole[start:].startswith(text + b" payload: " + text + b"\n")
    assert whole.endswith(b"| key: " + text + b" payload: " + text + b"\n")
    pieces.clear()
    kernel.LogText(*DEEP, kraft_text).render(block, 0, 1, [None], lambda piece: pieces.append(bytes(piece)))
    assert b"".join(pieces).endswith(b"headerKeys: [" + text + b"," + text + b"]\n")
    return text


@pytest.mark.parametrize("place", [*range(20), 31, 32, 33, 62, 63, 64, 65, 71, 127, 128, 129, 150])
def test_malformed_bytes_anywhere_in_a_text(kernel: ModuleType, place: int) -> None:
    for middle in (b"\xff", b"\xe2\x82", b"\xf0\x9f\x92", b"\xed\xa0\x80", "é".encode(), "💡".encode()):
        for tail in (0, 1, 7, 8, 63, 64, 100):
            data = b"a" * place + middle + b"z" * tail
            assert text_through(kernel, data) == java_utf8(data)


pieces_of_text = st.lists(
    st.one_of(
        st.binary(max_size=6),
        st.text(max_size=6).map(str.encode),
        st.binary(min_size=1, max_size=3).map(lambda data: bytes(byte | 0x80 for byte in data)),
        st.integers(0, 130).map(lambda length: b"x" * length),
        st.sampled_from([b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x80\x80", b"\xe0\x80", b"\xc0\x80", b"\xf5"]),
    ),
    max_size=8,
).map(b"".join)


@given(pieces_of_text)
def test_texts_come_out_as_java_prints_them(data: bytes) -> None:
    expected = java_utf8(data)
    for kernel in KERNELS:
        assert text_through(kernel, data) == expected


# --- batch lines that share fields


def test_fields_that_change_from_one_batch_to_the_next(kernel: ModuleType) -> None:
    """What a line may take over from the one before it must be taken from nowhere else."""
    same = NewBatch(producer_id=7, producer_epoch=1, leader_epoch=3)
    changes: list[dict[str, int]] = [
        {},
        {"producer_id": 8},
        {"producer_epoch": 2},
        {"leader_epoch": 4},
        {"base_sequence": 5},
        {"last_offset": 9},
        {"attributes": TRANSACTIONAL},
        {"attributes": CONTROL | TRANSACTIONAL},
        {"attributes": DELETE_HORIZON, "base_timestamp": 77},
        {"attributes": LZ4},
        {"max_timestamp": 99},
        {"base_sequence": 5, "last_offset": 8},
    ]
    content = [NewRecord(0, 1, bytes(4), MARKER)]
    batches = [encode_batch(content, same._replace(**change)) for change in changes]
    batches += [encode_batch(content * 2, same), encode_message(content[0], 1), encode_message(content[0], 0)]
    options = (False, False, False)
    for first in batches:
        for second in batches:
            lines = Printed(kernel, first + second + second + first, options).lines
            (expected,) = Printed(kernel, second, options).lines
            for at, line in ((1, lines[1]), (2, lines[2])):
                position = len(first) + (at - 1) * len(second)
                assert line == expected.replace(" position: 0 ", f" position: {position} ")
            assert lines[3].replace(f" position: {position + len(second)} ", " position: 0 ") == lines[0]


@only_native
def test_what_a_kernel_reads_cannot_be_resized_meanwhile() -> None:
    assert NATIVE is not None
    block = walked(NATIVE, encode_batch([NewRecord(0, 1, None, b"value")]))

    def write(_: memoryview) -> None:
        block.position.append(0)

    with pytest.raises(BufferError):
        NATIVE.LogText(*DATA, kraft_text).render(block, 0, 1, [None], write)
    block.position.append(0)
