"""What a release newer than kdump writes into the broker's own topics is no damage, whatever it is."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats import names
from kdump.formats.schemas.description import Layout
from kdump.formats.schemas.framing import CoordinatorTopic, MetadataTopic
from tests.topics.building import Log
from tests.verify.building import codes, found

TOPICS: dict[str, Any] = {
    name: import_module(f"kdump.formats.schemas.{module}").TOPIC
    for name, module in {
        names.CONSUMER_OFFSETS_TOPIC: "consumer_offsets",
        names.TRANSACTION_STATE_TOPIC: "transaction_state",
        names.SHARE_GROUP_STATE_TOPIC: "share_group_state",
        names.CLUSTER_METADATA_TOPIC: "cluster_metadata",
        names.REMOTE_LOG_METADATA_TOPIC: "remote_log_metadata",
    }.items()
}
TAGS = st.dictionaries(st.integers(100, 1 << 20), st.binary(max_size=40), min_size=1, max_size=3)


def sample(layout: Layout) -> dict[str, Any]:
    """A value without tagged fields of its own, and with one element in each array."""
    value: dict[str, Any] = {}
    for column in layout.columns:
        if column.tag is None:
            scalar = {"string": "text", "bytes": b"\0\1", "uuid": bytes(range(16)), "bool": True}.get(column.kind, 2)
            item = scalar if column.layout is None else sample(column.layout)
            value[column.name] = [item] if column.array else item
    return value


def varint(number: int) -> bytes:
    """Unsigned, seven bits a byte, the lowest first."""
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def tagged(body: bytes, tags: dict[int, bytes]) -> bytes:
    """A flexible message that ends without tagged fields, with these."""
    assert body.endswith(b"\0")
    fields = b"".join(varint(tag) + varint(len(data)) + data for tag, data in sorted(tags.items()))
    return body[:-1] + varint(len(tags)) + fields


@st.composite
def newer_records(draw: st.DrawFn) -> tuple[str, tuple[bytes | None, bytes], str]:
    """A topic's name, a record of it of a type, in a version or with tagged fields that nobody knows, and which."""
    name = draw(st.sampled_from(sorted(TOPICS)))
    topic = TOPICS[name]
    known = topic.schemas if isinstance(topic, MetadataTopic) else topic.kinds
    kind = draw(st.sampled_from(sorted(known)))
    if isinstance(topic, CoordinatorTopic):
        return name, _of_a_coordinator(draw, topic, kind), ""
    schema = topic.schemas[kind]
    value = topic.encode_value(kind, schema.last, sample(schema.layout(schema.last)))
    frame = 1
    version, body = schema.last, value[1 + len(varint(kind)) + len(varint(schema.last)) :]
    how = draw(st.sampled_from(["frame", "type", "version", "tags"]))
    if how == "frame":
        frame = draw(st.integers(2, 100))
    if how == "type":
        kind = draw(st.integers(max(known) + 1, 20_000))
    if how == "version":
        version += draw(st.integers(1, 50))
    if how != "type":
        body = tagged(body, draw(TAGS))
    return name, (None, varint(frame) + varint(kind) + varint(version) + body), how


def _of_a_coordinator(draw: st.DrawFn, topic: CoordinatorTopic, kind: int) -> tuple[bytes, bytes]:
    schema = topic.kinds[kind].layouts[-1]
    later = len(topic.kinds[kind].layouts) > 1
    key = topic.encode_key(kind, sample(topic.kinds[kind].key.layout(0)))
    value = topic.encode_value(kind, schema.last, sample(schema.layout(schema.last)), later=later)
    how = draw(st.sampled_from(["type", "version", "tags"]))
    if how == "type":
        return draw(st.integers(max(topic.kinds) + 1, 32_767)).to_bytes(2, "big") + draw(st.binary(max_size=30)), value
    version = schema.last + (draw(st.integers(1, 50)) if how == "version" else 0)
    is_flexible = schema.last >= schema.flexible
    return key, version.to_bytes(2, "big") + (tagged(value[2:], draw(TAGS)) if is_flexible else value[2:])


@pytest.mark.parametrize("kind", [23, 24, 25])
def test_a_newer_version_of_a_transactions_record_is_no_damage(tmp_path: Path, kind: int) -> None:
    """What is known of the beginning and the end of a metadata transaction may not hold for it."""
    pair = None, varint(1) + varint(kind) + varint(1) + b"\x00"
    Log(tmp_path / f"{names.CLUSTER_METADATA_TOPIC}-0").add(pair, pair).write()
    assert codes(found(tmp_path), "error", "warning") == set()


@given(st.lists(newer_records(), min_size=1, max_size=4))
def test_what_is_newer_is_no_damage(tmp_path_factory: pytest.TempPathFactory, records: list[Any]) -> None:
    data = tmp_path_factory.mktemp("newer")
    for name in {name for name, _, _ in records}:
        log = Log(data / f"{name}-0")
        for other, pair, _ in records:
            if other == name:
                log.add(pair)
        log.write()
        if name != names.CLUSTER_METADATA_TOPIC:
            (Path(log.folder) / "partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    # Records that are known but for a tagged field may contradict each other.
    others = ("KD-DIR", "KD-META-TOPIC", *(("KD-META-CLUSTER",) if any(how == "tags" for _, _, how in records) else ()))
    said = [finding for finding in found(data) if not finding.code.startswith(others)]
    assert codes(said, "error", "warning") == set(), said
