"""partition.metadata, meta.properties, .kafka_cleanshutdown and quorum-state."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import CheckpointError
from kdump.formats.metadata_files import (
    CleanShutdown,
    MetaProperties,
    PartitionMetadata,
    QuorumState,
    format_clean_shutdown,
    format_partition_metadata,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from kdump.formats.uuids import ZERO_UUID, parse_uuid

PATH = "/data/t-0/some-file"
TOPIC_ID_TEXT = "ESIzRFVmd4gBI0VniavN7w"
TOPIC_ID = bytes.fromhex("112233445566778801234567 89abcdef")

METADATA = b"version: 0\ntopic_id: ESIzRFVmd4gBI0VniavN7w"
PROPERTIES = (
    b"#\n#Tue Nov 14 22:13:20 UTC 2023\nbroker.id=1\ncluster.id=oracleClusterIdAAAAAAA\n"
    b"directory.id=AAAAAAAAAE0AAAAAAAAAWA\nversion=0\n"
)
SHUTDOWN = b'{"version":0,"brokerEpoch":42}'
QUORUM_0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
)
QUORUM_1 = b'{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"ESIzRFVmd4gBI0VniavN7w","data_version":1}\n'


def test_partition_metadata_golden_bytes() -> None:
    assert parse_partition_metadata(METADATA, PATH) == PartitionMetadata(0, TOPIC_ID)
    assert format_partition_metadata(PartitionMetadata(0, TOPIC_ID)) == METADATA


@given(st.builds(PartitionMetadata, st.integers(0, 2**31 - 1), st.binary(min_size=16, max_size=16)))
def test_partition_metadata_round_trip(metadata: PartitionMetadata) -> None:
    if metadata.topic_id != ZERO_UUID:
        assert parse_partition_metadata(format_partition_metadata(metadata), PATH) == metadata


def test_partition_metadata_that_the_reader_takes() -> None:
    data = f"v:\t +3\r\nid: \t {TOPIC_ID_TEXT}==\nmore\n".encode()
    assert parse_partition_metadata(data, PATH) == PartitionMetadata(3, TOPIC_ID)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("", f"Malformed line in checkpoint file ({PATH}): ''"),
        ("version:0\n", f"Malformed line in checkpoint file ({PATH}): 'version:0'"),
        ("version: 0: 1\n", f"Malformed line in checkpoint file ({PATH}): 'version: 0: 1'"),
        ("version:0: \n", f"Malformed line in checkpoint file ({PATH}): 'version:0: '"),
        ("version: :\t0\n", f"Malformed line in checkpoint file ({PATH}): 'version: :\t0'"),
        ("version: x\n", f"Malformed line in checkpoint file ({PATH}): 'version: x'"),
        ("version: 0 \n", f"Malformed line in checkpoint file ({PATH}): 'version: 0 '"),
        ("version: 0\n", f"Malformed line in checkpoint file ({PATH}): ''"),
        ("version: 0\ntopic_id: \n", f"Malformed line in checkpoint file ({PATH}): 'topic_id: '"),
        ("version: -1\n", f"Unrecognized version of partition metadata file ({PATH}): -1"),
        (f"version: 0\ntopic_id: {'A' * 22}", f"Invalid topic ID in partition metadata file ({PATH})"),
        (
            "version: 0\ntopic_id: AAAA",
            "Input string `AAAA` decoded as 3 bytes, which is not equal to the expected 16 bytes of a "
            f"base64-encoded UUID ({PATH})",
        ),
    ],
)
def test_partition_metadata_errors(data: str, text: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_partition_metadata(data.encode(), PATH)
    assert str(caught.value) == text


def test_meta_properties_of_version_0() -> None:
    expected = MetaProperties(0, "oracleClusterIdAAAAAAA", 1, parse_uuid("AAAAAAAAAE0AAAAAAAAAWA"))
    assert parse_meta_properties(PROPERTIES, PATH) == expected
    assert parse_meta_properties(b"", PATH) == MetaProperties(0, None, None, None)
    assert parse_meta_properties(b"node.id=3\nbroker.id=4\n", PATH).node_id == 4


def test_meta_properties_of_version_1() -> None:
    data = b"version=1\nnode.id : 3\nbroker.id=4\ncluster.id=a\\:b\\=c\n"
    assert parse_meta_properties(data, PATH) == MetaProperties(1, "a:b=c", 3, None)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"version=orange", f"Invalid meta.properties version string 'orange' ({PATH})"),
        (b"version=2", f"Unknown meta.properties version number 2 ({PATH})"),
        (b"version=1\nnode.id=3", f"cluster.id was not found. ({PATH})"),
        (b"version=1\ncluster.id=c", f"node.id was not found. ({PATH})"),
        (b"broker.id=x", f"Unable to read broker.id as a base-10 number: 'x' ({PATH})"),
        (b"directory.id=" + b"A" * 22, f"Invalid reserved directory ID {'A' * 22} found in {PATH}"),
        (b"directory.id=++", f"Input string `++` is not URL-safe base64 ({PATH})"),
        (b"cluster.id=\\u12", f"Malformed \\uxxxx encoding. ({PATH})"),
    ],
)
def test_meta_properties_errors(data: bytes, text: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_meta_properties(data, PATH)
    assert str(caught.value) == text


@given(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)))
def test_clean_shutdown_round_trip(broker_epoch: int | None) -> None:
    data = format_clean_shutdown(CleanShutdown(broker_epoch))
    assert parse_clean_shutdown(data, PATH) == CleanShutdown(broker_epoch)
    assert (data == b"") == (broker_epoch is None)


def test_clean_shutdown_golden_bytes() -> None:
    assert parse_clean_shutdown(SHUTDOWN, PATH) == CleanShutdown(42)
    assert format_clean_shutdown(CleanShutdown(42)) == SHUTDOWN
    assert parse_clean_shutdown(b' {"brokerEpoch": -1, "version": 3, "more": []} tail', PATH) == CleanShutdown(-1)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b" ", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"version":0,"brokerEpoch":' + b"9" * 5000 + b"}", "is not JSON"),
        (b"[0]", "JSON object"),
        (b'{"version":0}', "no brokerEpoch field"),
        (b'{"brokerEpoch":0}', "no version field"),
        (b'{"version":0,"brokerEpoch":true}', "not a 64-bit integer"),
        (b'{"version":0,"brokerEpoch":1.5}', "not a 64-bit integer"),
        (b'{"version":0,"brokerEpoch":9223372036854775808}', "not a 64-bit integer"),
        (b'{"version":2147483648,"brokerEpoch":0}', "not a 32-bit integer"),
    ],
)
def test_clean_shutdown_errors(data: bytes, problem: str) -> None:
    with pytest.raises(CheckpointError, match=problem) as caught:
        parse_clean_shutdown(data, PATH)
    assert PATH in str(caught.value)


def test_quorum_state_of_data_version_0() -> None:
    assert parse_quorum_state(QUORUM_0, PATH) == QuorumState(
        0, 1, 2, -1, cluster_id="", applied_offset=0, current_voters=(1, 2)
    )


def test_quorum_state_without_voters() -> None:
    state = json.loads(QUORUM_0) | {"currentVoters": None}
    assert parse_quorum_state(json.dumps(state).encode(), PATH).current_voters is None


def test_quorum_state_of_data_version_1() -> None:
    assert parse_quorum_state(QUORUM_1 + b"only the first line counts", PATH) == QuorumState(
        1, -1, 2, 1, voted_directory_id=TOPIC_ID
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"data_version": None}, "data_version is not a 32-bit integer"),
        ({"data_version": 2}, r"data_version \(2\) is not within the min \(0\) and max \(1\) supported version"),
        ({"data_version": -1}, r"data_version \(-1\) is not within"),
        ({"data_version": 1}, "no votedDirectoryId field"),
        ({"leaderId": "1"}, "leaderId is not a 32-bit integer"),
        ({"clusterId": None}, "clusterId is not a string"),
        ({"appliedOffset": 2**63}, "appliedOffset is not a 64-bit integer"),
        ({"currentVoters": {}}, "currentVoters is not a list"),
        ({"currentVoters": [1]}, "JSON object"),
        ({"currentVoters": [{}]}, "no voterId field"),
    ],
)
def test_quorum_state_errors(change: dict[str, object], problem: str) -> None:
    with pytest.raises(CheckpointError, match=problem):
        parse_quorum_state(json.dumps(json.loads(QUORUM_0) | change).encode(), PATH)


@pytest.mark.parametrize("key", ["data_version", "leaderEpoch", "clusterId", "currentVoters"])
def test_quorum_state_needs_every_field(key: str) -> None:
    state = json.loads(QUORUM_0)
    del state[key]
    with pytest.raises(CheckpointError, match=f"There is no {key} field in {PATH}"):
        parse_quorum_state(json.dumps(state).encode(), PATH)


def test_empty_quorum_state() -> None:
    with pytest.raises(CheckpointError, match="ended prematurely"):
        parse_quorum_state(b"", PATH)


def damaged(sound: bytes) -> Iterator[bytes]:
    for at, byte in enumerate(sound):
        yield sound[:at]
        for bit in range(8):
            yield sound[:at] + bytes([byte ^ 1 << bit]) + sound[at + 1 :]


@pytest.mark.parametrize(
    ("parse", "sound"),
    [
        (parse_partition_metadata, METADATA),
        (parse_meta_properties, PROPERTIES),
        (parse_clean_shutdown, SHUTDOWN),
        (parse_quorum_state, QUORUM_0),
        (parse_quorum_state, QUORUM_1),
    ],
)
def test_every_truncation_and_bit_flip_gives_a_value_or_the_error(
    parse: Callable[[bytes, str], object], sound: bytes
) -> None:
    of_its_kind = type(parse(sound, PATH))
    refused = 0
    for data in damaged(sound):
        try:
            assert isinstance(parse(data, PATH), of_its_kind)
        except CheckpointError:
            refused += 1
    assert refused > 0


@given(st.binary(max_size=80))
@pytest.mark.parametrize(
    "parse", [parse_partition_metadata, parse_meta_properties, parse_clean_shutdown, parse_quorum_state]
)
def test_any_bytes_give_a_value_or_the_error(parse: Callable[[bytes, str], object], data: bytes) -> None:
    with contextlib.suppress(CheckpointError):
        assert parse(data, PATH) is not None
