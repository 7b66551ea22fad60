"""The interpreter of Kafka's generated messages: layouts of each type, limits, and what Kafka says about damage."""

from __future__ import annotations

from typing import Any

import pytest

from kdump.formats.schemas.description import Field, Schema, SchemaError
from kdump.formats.schemas.json_form import to_json
from kdump.formats.schemas.reader import decode, decode_as_broker, read_unsigned_varint
from kdump.formats.schemas.writer import encode, write_unsigned_varint
from kdump.releases import KafkaRelease

UUID = bytes(range(16))


def one(kind: str, *, flexible: str = "none", **options: Any) -> Schema:
    """A message of version 0 with the single field `x`."""
    return Schema("One", "0", flexible, Field("x", kind, **options))


@pytest.mark.parametrize(
    ("kind", "value", "plain", "compact"),
    [
        ("bool", True, "01", "01"),
        ("int8", -2, "fe", "fe"),
        ("int16", -2, "fffe", "fffe"),
        ("int32", 258, "00000102", "00000102"),
        ("int64", -1, "ff" * 8, "ff" * 8),
        ("uint16", 65535, "ffff", "ffff"),
        ("uint32", 2**32 - 1, "ffffffff", "ffffffff"),
        ("float64", 14.625, "402d400000000000", "402d400000000000"),
        ("uuid", UUID, UUID.hex(), UUID.hex()),
        ("string", "gü", "000367c3bc", "0467c3bc"),
        ("string", "", "0000", "01"),
        ("bytes", b"\1\2", "000000020102", "030102"),
        ("[]int16", [1, -1], "000000020001ffff", "030001ffff"),
        ("[]string", ["a", ""], "000000020001610000", "03026101"),
        ("[]uuid", [UUID], "00000001" + UUID.hex(), "02" + UUID.hex()),
    ],
)
def test_layout_of_each_type(kind: str, value: object, plain: str, compact: str) -> None:
    for schema, expected in ((one(kind), plain), (one(kind, flexible="0+"), compact + "00")):
        data = bytes.fromhex(expected)
        assert encode(schema, 0, {"x": value}) == data
        assert decode(schema, 0, b"??" + data + b"!", 2) == ({"x": value}, len(data) + 2)


@pytest.mark.parametrize(
    ("kind", "plain", "compact"), [("string", "ffff", "00"), ("bytes", "ffffffff", "00"), ("[]int8", "ffffffff", "00")]
)
def test_null(kind: str, plain: str, compact: str) -> None:
    for flexible, expected in (("none", plain), ("0+", compact + "00")):
        nullable = one(kind, flexible=flexible, nullable="0+")
        assert encode(nullable, 0, {"x": None}).hex() == expected
        assert decode(nullable, 0, bytes.fromhex(expected))[0] == {"x": None}
        with pytest.raises(SchemaError) as caught:
            decode(one(kind, flexible=flexible), 0, bytes.fromhex(expected))
        assert caught.value.kafka_message == "non-nullable field x was serialized as null"
        with pytest.raises(SchemaError, match="null is not allowed"):
            encode(one(kind, flexible=flexible), 0, {"x": None})


def test_a_struct_that_may_be_null_has_a_marker() -> None:
    schema = one("Pair", nullable="0+", default=None, fields=(Field("a", "int8"), Field("b", "int8")))
    assert encode(schema, 0, {"x": None}) == b"\xff"
    assert encode(schema, 0, {"x": {"a": 5, "b": 6}}) == b"\1\5\6"
    assert decode(schema, 0, b"\x80")[0] == {"x": None}  # every negative marker means null
    assert decode(schema, 0, b"\0\5\6")[0] == {"x": {"a": 5, "b": 6}}


def test_every_flexible_struct_ends_with_a_tagged_section() -> None:
    schema = one("[]Item", flexible="1+", fields=(Field("a", "int8"),))
    schema.last = 1
    value = {"x": [{"a": 1}, {"a": 2}]}
    assert encode(schema, 0, value).hex() == "00000002" + "01" + "02"
    assert encode(schema, 1, value).hex() == "03" + "0100" + "0200" + "00"
    assert decode(schema, 1, bytes.fromhex("030100020000"))[0] == value


VERSIONED = Schema(
    "Versioned",
    "0-3",
    "3+",
    Field("always", "int8"),
    Field("middle", "int8", "1-2", default=-1, ignorable=True),
    Field("late", "string", "2+", nullable="3+", default=""),
    Field("list", "[]int8", "2+"),
)


def test_fields_by_version() -> None:
    assert decode(VERSIONED, 0, b"\7") == ({"always": 7, "middle": -1, "late": "", "list": []}, 1)
    assert encode(VERSIONED, 1, {"always": 7, "middle": 8}) == b"\7\10"
    assert encode(VERSIONED, 3, {"always": 7, "late": None, "list": [9]}) == b"\7\0\2\11\0"
    assert list(decode(VERSIONED, 3, b"\7\0\2\11\0")[0]) == ["always", "middle", "late", "list"]
    first, second = (decode(VERSIONED, 0, b"\7")[0] for _ in range(2))
    first["list"].append(1)
    assert second["list"] == []


def test_null_only_where_the_version_allows_it() -> None:
    with pytest.raises(SchemaError) as caught:
        decode(VERSIONED, 2, b"\7\10\xff\xff\0\0\0\0")
    assert caught.value.path == "late"
    assert caught.value.position == 4


@pytest.mark.parametrize("version", [-1, 4, 77])
def test_unknown_versions_are_refused(version: int) -> None:
    for attempt in (lambda: decode(VERSIONED, version, bytes(40)), lambda: encode(VERSIONED, version, {})):
        with pytest.raises(SchemaError, match=f"Unknown version {version} of Versioned: 0 to 3 are known"):
            attempt()


def test_what_a_version_lacks_is_not_dropped_silently() -> None:
    with pytest.raises(SchemaError, match="Attempted to write a non-default late at version 1"):
        encode(VERSIONED, 1, {"late": "x"})
    assert encode(VERSIONED, 0, {"middle": 5}) == b"\0"  # ignorable


TAGGED = Schema(
    "Tagged",
    "0-1",
    "0+",
    Field("plain", "int8"),
    Field("zero", "int16", tag=0, default=-1),
    Field("two", "[]string", nullable="0+", tag=2, default=None),
    Field("three", "bool", "1+", tag=3),
    Field("four", "int8", tag=4, since=KafkaRelease.V4_1),
)


def test_tagged_fields_are_written_only_where_not_default() -> None:
    assert encode(TAGGED, 1, {"plain": 1}) == b"\1\0"
    value = {"plain": 1, "zero": 5, "two": ["a"], "three": True, "four": 0}
    data = bytes.fromhex("01" + "03" + "00020005" + "0203" + "020261" + "030101")
    assert encode(TAGGED, 1, value) == data
    assert decode(TAGGED, 1, data) == (value, len(data))
    assert to_json(TAGGED, 1, value) == {"plain": 1, "zero": 5, "two": ["a"], "three": True}
    assert to_json(TAGGED, 1, decode(TAGGED, 1, b"\1\0")[0]) == {"plain": 1}


def test_unknown_tags_are_skipped_by_size() -> None:
    data = bytes.fromhex("01" + "02" + "00020005" + "0903aabbcc")
    assert decode(TAGGED, 1, data)[0]["zero"] == 5
    assert decode(TAGGED, 1, data)[1] == len(data)


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ("02" + "00020005" + "00020005", "Tag 0 after tag 0"),
        ("02" + "020100" + "00020005", "Tag 0 after tag 2"),
        ("01" + "0003000500", "left over"),
        ("01" + "000100", "int16 needs 2"),
        ("7f", "127 tagged"),
        ("ffffffff0f", "-1 tagged"),
    ],
)
def test_strict_about_what_brokers_let_pass(section: str, found: str) -> None:
    with pytest.raises(SchemaError, match=found):
        decode(TAGGED, 1, bytes.fromhex("01" + section))


def test_as_brokers_read() -> None:
    def value(section: str, release: KafkaRelease | None = None) -> dict[str, Any]:
        return decode_as_broker(TAGGED, 1, bytes.fromhex("01" + section), release=release)[0]

    assert value("02" + "00020005" + "00020006")["zero"] == 6
    assert value("01" + "00050005")["zero"] == 5  # the size of a known field is not looked at
    assert value("ffffffff0f")["zero"] == -1  # a negative count is none
    assert value("01" + "040105")["four"] == 5
    assert "four" not in value("01" + "040105", KafkaRelease.V4_0)  # known to later releases only
    with pytest.raises(SchemaError) as caught:
        value("01" + "09ffffffff0f")
    assert (caught.value.kafka_message, caught.value.java_class) == ("-1", "java.lang.NegativeArraySizeException")


def test_a_tag_of_another_version() -> None:
    for read in (decode, decode_as_broker):
        with pytest.raises(SchemaError) as caught:
            read(TAGGED, 0, bytes.fromhex("01" + "01" + "030101"))
        assert caught.value.kafka_message == "Tag 3 is not valid for version 0"


def test_brokers_read_unknown_versions_as_the_nearest() -> None:
    item = (Field("a", "int8"), Field("b", "int8", "1+"))
    nested = Schema("Nested", "0-1", "none", Field("items", "[]Item", fields=item))
    assert decode_as_broker(nested, 9, bytes.fromhex("00000000"))[0] == {"items": []}
    assert decode_as_broker(nested, -3, bytes.fromhex("0000000105"))[0] == {"items": [{"a": 5, "b": 0}]}
    with pytest.raises(SchemaError) as caught:
        decode_as_broker(nested, 9, bytes.fromhex("0000000105"))
    assert caught.value.kafka_message == "Can't read version 9 of Item"
    assert caught.value.java_class == "org.apache.kafka.common.errors.UnsupportedVersionException"
    bounded = Schema("Nested", "0", "none", Field("items", "[]Item", "0", fields=(Field("a", "int8"),)))
    assert decode_as_broker(bounded, 9, bytes.fromhex("0000000105"))[0] == {"items": [{"a": 5}]}


@pytest.mark.parametrize(
    ("schema", "data", "kafka_message", "position"),
    [
        (one("string"), "000c41", "Error reading byte array of 12 byte(s): only 1 byte(s) available", 2),
        (one("bytes"), "7fffffff", "Error reading byte array of 2147483647 byte(s): only 0 byte(s) available", 4),
        (
            one("[]int32"),
            "7fffffff00",
            "Tried to allocate a collection of size 2147483647, but there are only 1 bytes remaining.",
            4,
        ),
        (one("string", flexible="0+"), "818002" + "00" * 9, "string field x had invalid length 32768", 3),
        (one("[]string"), "00000001ffff", "non-nullable field x element was serialized as null", 6),
        (
            one("string", flexible="0+"),
            "ffffffff8f",
            "Varint is too long, the most significant bit in the 5th byte is set, converted value: ffffffff",
            5,
        ),
        (one("int64"), "00000000000000", None, 0),
        (one("uuid"), "00" * 15, None, 0),
        (one("string"), "00", None, 0),
        (one("bytes", flexible="0+"), "80", None, 1),
    ],
)
def test_damage_has_kafkas_texts(schema: Schema, data: str, kafka_message: str | None, position: int) -> None:
    for read in (decode, decode_as_broker):
        with pytest.raises(SchemaError) as caught:
            read(schema, 0, bytes.fromhex(data))
        assert caught.value.kafka_message == kafka_message
        assert caught.value.position == position
        assert caught.value.path.startswith("x")


def test_errors_name_the_place() -> None:
    inner = (Field("name", "string"), Field("numbers", "[]int16"))
    schema = Schema("Outer", "0", "none", Field("id", "int8"), Field("items", "[]Item", fields=inner))
    data = encode(schema, 0, {"id": 1, "items": [{"name": "a", "numbers": [1]}, {"name": "b", "numbers": [2, 3]}]})
    with pytest.raises(SchemaError) as caught:
        decode(schema, 0, data[:-1])
    assert str(caught.value) == (
        f"int16 needs 2 byte(s): only 1 byte(s) available (field items[1].numbers[1], byte {len(data) - 2})"
    )
    with pytest.raises(SchemaError, match=r"70000 is no int16 \(field items\[0\].numbers\[1\]\)"):
        encode(schema, 0, {"items": [{"numbers": [1, 70000]}]})


def test_a_huge_count_allocates_nothing() -> None:
    schema = one("[]Empty", fields=())
    with pytest.raises(SchemaError, match="Tried to allocate"):
        decode(schema, 0, bytes.fromhex("7fffffff"))


def test_what_is_not_utf_8_becomes_a_replacement_character() -> None:
    assert decode(one("string"), 0, bytes.fromhex("0005" + "61eda08062"))[0] == {"x": "a\ufffdb"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int8", 128),
        ("uint16", -1),
        ("int32", "7"),
        ("int64", 1.5),
        ("float64", "1"),
        ("uuid", b"short"),
        ("uuid", "A" * 22),
        ("string", b"bytes"),
        ("string", "\ud800"),
        ("string", "x" * 32768),
        ("bytes", "text"),
        ("[]int8", (1,)),
        ("[]int8", [None]),
        ("[]string", [None]),
    ],
)
def test_values_that_do_not_fit(kind: str, value: object) -> None:
    with pytest.raises(SchemaError):
        encode(one(kind), 0, {"x": value})


def test_unknown_names_are_refused() -> None:
    with pytest.raises(SchemaError, match="One has no field y"):
        encode(one("int8"), 0, {"y": 1})
    with pytest.raises(SchemaError, match="5 is no Pair"):
        encode(one("Pair", fields=(Field("a", "int8"),)), 0, {"x": 5})


@pytest.mark.parametrize(
    ("number", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**31 - 1, "ffffffff07")]
)
def test_unsigned_varints(number: int, data: str) -> None:
    out = bytearray()
    write_unsigned_varint(out, number)
    assert out.hex() == data
    assert read_unsigned_varint(b"?" + bytes.fromhex(data), 1) == (number, len(out) + 1)


def test_varints_are_javas_ints() -> None:
    assert read_unsigned_varint(bytes.fromhex("8000"), 0) == (0, 2)  # longer than needed
    assert read_unsigned_varint(bytes.fromhex("ffffffff0f"), 0) == (-1, 5)
    assert read_unsigned_varint(bytes.fromhex("ffffffff7f"), 0) == (-1, 5)  # bits beyond the 32nd are shifted out


def test_json_of_each_type() -> None:
    schema = Schema(
        "All",
        "0",
        "0+",
        Field("flag", "bool"),
        Field("big", "int64"),
        Field("id", "uuid"),
        Field("data", "bytes"),
        Field("none", "bytes", nullable="0+"),
        Field("quota", "float64"),
        Field("list", "[]uuid"),
        Field("struct", "Pair", fields=(Field("a", "int8"),)),
    )
    value = {
        "flag": True,
        "big": -(2**63),
        "id": bytes([0xFF] * 15 + [0xFB]),
        "data": b"\xff\xfe\xfb\0",
        "none": None,
        "quota": 42.0,
        "list": [bytes(15) + b"\1"],
        "struct": {"a": 3},
    }
    assert to_json(schema, 0, value) == {
        "flag": True,
        "big": -9223372036854775808,
        "id": "____________________-w",
        "data": "//77AA==",
        "none": None,
        "quota": 42.0,
        "list": ["AAAAAAAAAAAAAAAAAAAAAQ"],
        "struct": {"a": 3},
    }
    for number, text in ((float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")):
        assert to_json(one("float64"), 0, {"x": number}) == {"x": text}
