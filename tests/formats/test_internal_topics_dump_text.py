"""The texts of kafka-dump-log's decoders, as Kafka 4.0 printed them for the same bytes."""

from __future__ import annotations

import json
from functools import partial

import pytest

from kdump.errors import JavaError
from kdump.formats.schemas import consumer_offsets, dump_text, remote_log_metadata, transaction_state
from kdump.formats.schemas.dump_text import DECODERS
from kdump.releases import KafkaRelease

parse = partial(dump_text.parse, release=KafkaRelease.V4_0)
control_text = partial(dump_text.control_text, release=KafkaRelease.V4_0)

OFFSETS, TRANSACTIONS, METADATA, REMOTE, SHARE = DECODERS

COMMIT_KEY = "0001000ce38388e38394e38383e382af0008636c69656e745f370000f81e"
COMMIT_VALUE = "000300000000000000580000d90100086d792e67726f75700000018bcfe9845f"
COMMIT_KEY_TEXT = '{"type":"1","data":{"group":"トピック","topic":"client_7","partition":63518}}'
COMMIT_VALUE_TEXT = (
    '{"version":"3","data":{"offset":88,"leaderEpoch":55553,"metadata":"my.group","commitTimestamp":1700000269407}}'
)


def data(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize(
    ("decoder", "key", "value", "key_text", "value_text"),
    [
        (
            OFFSETS,
            "000100016700017400000000",
            "00030000000000000005ffffffff00000000018bcfe56800",
            '{"type":"1","data":{"group":"g","topic":"t","partition":0}}',
            '{"version":"3","data":{"offset":5,"leaderEpoch":-1,"metadata":"","commitTimestamp":1700000000000}}',
        ),
        (OFFSETS, COMMIT_KEY, COMMIT_VALUE, COMMIT_KEY_TEXT, COMMIT_VALUE_TEXT),
        (OFFSETS, COMMIT_KEY, None, COMMIT_KEY_TEXT, "<DELETE>"),
        (
            OFFSETS,
            "00000006626574612d31000361226200017492",
            "00000000018bcff2c13a00086d792e67726f75700020000000000125",
            '{"type":"0","data":{"group":"beta-1","topic":"a\\"b","partition":95378}}',
            '{"version":"0","data":{"offset":1700000874810,"metadata":"my.group","commitTimestamp":9007199254741285}}',
        ),
        (
            OFFSETS,
            "000500036122620003612262",
            "0000000106616c70686110636f6e73756d65722d312d36663263010de38388e38394e38383e382af0000356606616c7068610100"
            "0701000053400100",
            '{"type":"5","data":{"groupId":"a\\"b","memberId":"a\\"b"}}',
            '{"version":"0","data":{"instanceId":null,"rackId":"","clientId":"alpha","clientHost":"consumer-1-6f2c",'
            '"subscribedTopicNames":[],"subscribedTopicRegex":"トピック","rebalanceTimeoutMs":13670,'
            '"serverAssignor":"alpha","classicMemberMetadata":{"sessionTimeoutMs":21312,"supportedProtocols":[]}}}',
        ),
        (
            OFFSETS,
            "00080006626574612d310000",
            "000000000000000064ec00010230462543a15f13c030c9018947cfa320030000005d0000005a0000",
            '{"type":"8","data":{"groupId":"beta-1","memberId":""}}',
            '{"version":"0","data":{"memberEpoch":0,"previousMemberEpoch":25836,"state":0,"assignedPartitions":[],'
            '"partitionsPendingRevocation":[{"topicId":"MEYlQ6FfE8AwyQGJR8-jIA","partitions":[93,90]}]}}',
        ),
        (
            TRANSACTIONS,
            "0000001174782de38388e38394e38383e382af2d37",
            "000000000000000003ff00090000ea6007000000030007616c7068617430000000030000000000000001000000020008626574"
            "612d31743100000003000000000000000100000002000b6772757070652dc3bc74320000000300000000000000010000000200"
            "00018bcfe56d460000018bcfe56b52",
            "transaction_metadata::transactionalId=tx-トピック-7",
            "producerId:1023,producerEpoch:9,state=PrepareEpochFence,partitions=[beta-1t1-0,gruppe-üt2-0,beta-1t1-2,"
            "gruppe-üt2-1,beta-1t1-1,gruppe-üt2-2,alphat0-1,alphat0-0,alphat0-2],txnLastUpdateTimestamp=1700000001350,"
            "txnTimeoutMs=60000",
        ),
        (
            TRANSACTIONS,
            "0000000b74782d616c7068612d3138",
            "000100000000000003ee00180000ea6000000000018bcfe56b84ffffffffffffffff00",
            "transaction_metadata::transactionalId=tx-alpha-18",
            "producerId:1006,producerEpoch:24,state=Empty,partitions=[],txnLastUpdateTimestamp=1700000000900,"
            "txnTimeoutMs=60000",
        ),
        (
            METADATA,
            None,
            "010502000081f18034be5f7a16514027e1586465b54fb4060001010104000110ce020101040101050100080101",
            None,
            '{"type":"PARTITION_CHANGE_RECORD","version":2,"data":{"partitionId":33265,"topicId":'
            '"gDS-X3oWUUAn4VhkZbVPtA","isr":[],"leader":69838,"replicas":[],"addingReplicas":[],'
            '"leaderRecoveryState":0,"directories":[]}}',
        ),
        (
            METADATA,
            None,
            "010e00020de38388e38394e38383e382af096d792e67726f757000057a657461402d4000000000000000",
            None,
            '{"type":"CLIENT_QUOTA_RECORD","version":0,"data":{"entity":[{"entityType":"トピック","entityName":'
            '"my.group"}],"key":"zeta","value":14.625,"remove":false}}',
        ),
        (
            REMOTE,
            None,
            "01000007746965726564000000000000000b00000000000000000000000000a76e295a86532da286355abddd77e7210000000000"
            "0000000000000000000003e7000000010000018bcfe568000000018bcfe5680002000000000000000000000000000010000004"
            "0102000000",
            None,
            "RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=AAAAAAAAAAsAAAAAAAAAAA:"
            "tiered-0, id=p24pWoZTLaKGNVq93XfnIQ}, startOffset=0, endOffset=999, brokerId=1, maxTimestampMs="
            "1700000000000, eventTimestampMs=1700000000000, segmentLeaderEpochs={0=0}, segmentSizeInBytes=1048576, "
            "customMetadata=Optional[CustomMetadata{3 bytes}], state=COPY_SEGMENT_STARTED}",
        ),
        (
            REMOTE,
            None,
            "01010007746965726564000000000000000b00000000000000020000000100d4ed78d417563e0edda5b04cc17a68f00000000001"
            "0000018bcfe56832040102010100",
            None,
            "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition="
            "AAAAAAAAAAsAAAAAAAAAAg:tiered-1, id=1O141BdWPg7dpbBMwXpo8A}, customMetadata=Optional[CustomMetadata{3 "
            "bytes}], state=COPY_SEGMENT_FINISHED, eventTimestampMs=1700000000050, brokerId=1}",
        ),
        (
            REMOTE,
            None,
            "01020007746965726564000000000000000b00000000000000020000000200000000010000018bcfe568640200",
            None,
            "RemotePartitionDeleteMetadata{topicPartition=AAAAAAAAAAsAAAAAAAAAAg:tiered-2, state="
            "DELETE_PARTITION_FINISHED, eventTimestampMs=1700000000100, brokerId=1}",
        ),
        (
            REMOTE,
            None,
            "010300000000000000000500000000000000030000000000000bb80000000000000c1b000000020000018bcfe568960000018bcf"
            "e5689603000000000000000000000bb800000000010000000000000bb90000001000000100",
            None,
            "RemoteLogSegmentMetadataSnapshot{segmentId=AAAAAAAAAAUAAAAAAAAAAw, startOffset=3000, endOffset=3099, "
            "maxTimestampMs=1700000000150, segmentLeaderEpochs={0=3000, 1=3001}, segmentSizeInBytes=4096, "
            "customMetadata=Optional.empty, state=COPY_SEGMENT_FINISHED}",
        ),
        (
            SHARE,
            "00000005616c706861fd88fa89c6169df4a2d31cc9708250db00014e7e",
            "0000ef9fffffffff0001853a000000000000008f0100",
            '{"type":"0","data":{"groupId":"alpha","topicId":"_Yj6icYWnfSi0xzJcIJQ2w","partition":85630}}',
            '{"type":"0","data":{"snapshotEpoch":61343,"stateEpoch":-1,"leaderEpoch":99642,"startOffset":143,'
            '"stateBatches":[]}}',
        ),
    ],
)
def test_printed_records(
    decoder: str, key: str | None, value: str | None, key_text: str | None, value_text: str | None
) -> None:
    assert parse(decoder, 3, data(key), data(value)) == (key_text, value_text)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("00630102", "0102", "Unknown record type 99 at offset 4, skipping."),
        ("ffff", COMMIT_VALUE, "Unknown record type -1 at offset 4, skipping."),
        ("0011000167", None, "Unknown record type 17 at offset 4, skipping."),
        ("", COMMIT_VALUE, "Error at offset 4, skipping. Could not read version from key's buffer."),
        (COMMIT_KEY, "00", "Error at offset 4, skipping. Could not read version from value's buffer."),
        (
            "0001000ce3",
            COMMIT_VALUE,
            "Error at offset 4, skipping. Could not read record with version 1 from key's buffer due to: "
            "Error reading byte array of 12 byte(s): only 1 byte(s) available.",
        ),
        (
            COMMIT_KEY,
            "004d00",
            "Error at offset 4, skipping. Could not read record with version 77 from value's buffer due to: null.",
        ),
    ],
)
def test_failures_of_the_coordinator_decoders(key: str, value: str | None, text: str) -> None:
    assert parse(OFFSETS, 4, data(key), data(value)) == (text, None)
    if "type" in text:
        assert parse(SHARE, 4, data(key), data(value)) == (text, None)


def test_what_follows_key_and_value_is_not_looked_at() -> None:
    texts = parse(OFFSETS, 0, data(COMMIT_KEY + "010203"), data(COMMIT_VALUE + "0909"))
    assert texts == (COMMIT_KEY_TEXT, COMMIT_VALUE_TEXT)


def test_fields_of_later_releases_are_not_printed() -> None:
    value = consumer_offsets.encode_value(3, 0, {"epoch": 5, "metadataHash": 9})
    assert parse(OFFSETS, 0, bytes.fromhex("0003000167"), value)[1] == '{"version":"0","data":{"epoch":5}}'


def test_members_of_a_consumer_group_are_opened() -> None:
    subscription = bytes.fromhex("0001" + "00000001" + "000174" + "ffffffff" + "00000000")
    assignment = bytes.fromhex("0000" + "00000001" + "000174" + "00000001" + "00000000" + "00000001" + "09")
    member = {
        "memberId": "m1",
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeout": 30000,
        "sessionTimeout": 10000,
        "subscription": subscription,
        "assignment": assignment,
    }
    group = {"protocolType": "consumer", "generation": 4, "protocol": "range", "leader": "m1", "members": [member]}
    key = consumer_offsets.encode_key(2, {"group": "g"})
    head = (
        '"generation":4,"protocol":"range","leader":"m1","currentStateTimestamp":-1,"members":[{"memberId":"m1",'
        '"groupInstanceId":null,"clientId":"c","clientHost":"/h","rebalanceTimeout":30000,"sessionTimeout":10000,'
    )
    assert parse(OFFSETS, 0, key, consumer_offsets.encode_value(2, 3, group)) == (
        '{"type":"2","data":{"group":"g"}}',
        '{"version":"3","data":{"protocolType":"consumer",'
        + head
        + '"subscription":{"topics":["t"],"userData":null,"ownedPartitions":[]},'
        '"assignment":{"assignedPartitions":[{"topic":"t","partitions":[0]}],"userData":"CQ=="}}]}}',
    )
    damaged = group | {"members": [member | {"subscription": subscription[:5], "assignment": b""}]}
    assert parse(OFFSETS, 0, key, consumer_offsets.encode_value(2, 3, damaged))[1] == (
        '{"version":"3","data":{"protocolType":"consumer",' + head + '"subscription":"AAEAAAA=","assignment":""}]}}'
    )
    other = group | {"protocolType": "connect", "members": [member | {"assignment": b"\0"}]}
    assert parse(OFFSETS, 0, key, consumer_offsets.encode_value(2, 3, other))[1] == (
        '{"version":"3","data":{"protocolType":"connect",'
        + head
        + '"subscription":"AAEAAAABAAF0/////wAAAAA=","assignment":"AA=="}]}}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("016300", "org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id 99"),
        (
            "00",
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release "
            "of KRaft in 2.8 to newer versions are not supported.",
        ),
        (
            "77",
            "Could not deserialize metadata record due to unknown frame version 119(only frame version 1 is supported)",
        ),
        ("ffffff7f", "Value for frame version was too large."),
        ("", "Error while reading frame version"),
        ("0102", "Error while reading version"),
        ("01023200", "Failed to deserialize record with type 2"),
        ("0114000005", "Found 1 byte(s) of garbage after 20"),
    ],
)
def test_failures_of_the_metadata_decoders(value: str, text: str) -> None:
    assert parse(METADATA, 9, None, data(value)) == (None, f"Error at 9, skipping. {text}")
    if "type 2" not in text and "garbage" not in text:
        assert parse(REMOTE, 9, b"any", data(value)) == (None, f"Error at offset 9, skipping. {text}")


def test_absent_values_of_metadata_topics() -> None:
    assert parse(METADATA, 5, None, None) == (None, "Error at 5, skipping. Error while reading frame version")
    assert parse(REMOTE, 5, None, None) == (
        None,
        'Error at offset 5, skipping. Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
        '"org.apache.kafka.common.record.Record.value()" is null',
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"startOffset": -1}, "Unexpected start offset = -1. StartOffset for a remote segment cannot be negative"),
        (
            {"startOffset": 5, "endOffset": 4},
            "Unexpected end offset = 4. EndOffset for a remote segment cannot be less than startOffset = 5",
        ),
        ({"segmentLeaderEpochs": []}, "segmentLeaderEpochs can not be null or empty"),
        ({"remoteLogSegmentState": 9}, "state can not be null"),
    ],
)
def test_remote_segments_that_kafka_refuses(fields: dict[str, object], text: str) -> None:
    sound = {"segmentLeaderEpochs": [{"leaderEpoch": 7, "offset": 1}]}
    value = remote_log_metadata.encode_value(remote_log_metadata.SEGMENT_METADATA, 0, sound | fields)
    assert parse(REMOTE, 6, None, value) == (None, f"Error at offset 6, skipping. {text}")


def test_remote_leader_epochs_are_sorted_and_unknown_delete_states_have_no_text() -> None:
    epochs = [{"leaderEpoch": e, "offset": o} for e, o in ((3, 30), (-1, 0), (3, 31), (0, 5))]
    value = remote_log_metadata.encode_value(3, 0, {"segmentLeaderEpochs": epochs})
    assert "segmentLeaderEpochs={-1=0, 0=5, 3=31}," in str(parse(REMOTE, 6, None, value)[1])
    value = remote_log_metadata.encode_value(2, 0, {"remotePartitionDeleteState": 3})
    assert parse(REMOTE, 6, None, value) == (None, "Error at offset 6, skipping. null")


def transaction(**fields: object) -> bytes:
    return transaction_state.encode_value(0, 1, {"transactionStatus": 1} | fields)


@pytest.mark.parametrize(("release", "status"), [(KafkaRelease.V4_3, 4), (KafkaRelease.V4_4, "CompleteCommit")])
def test_from_4_4_on_the_status_of_a_transaction_is_a_name(release: KafkaRelease, status: int | str) -> None:
    _, text = dump_text.parse(TRANSACTIONS, 0, b"\0\0\0\1t", transaction(transactionStatus=4), release=release)
    assert text is not None
    said = json.loads(text)
    assert (said["version"], said["data"]["transactionStatus"]) == ("1", status)


@pytest.mark.parametrize(
    ("decoder", "key", "value", "java_class", "message"),
    [
        (
            OFFSETS,
            None,
            b"x",
            "java.lang.RuntimeException",
            "Failed to decode message at offset 8 using offset topic decoder (message had a missing key)",
        ),
        (
            SHARE,
            None,
            None,
            "java.lang.RuntimeException",
            "Failed to decode message at offset 8 using share group state topic decoder (message had a missing key)",
        ),
        (
            TRANSACTIONS,
            None,
            b"x",
            "java.lang.NullPointerException",
            'Cannot invoke "java.nio.ByteBuffer.getShort()" because "buffer" is null',
        ),
        (TRANSACTIONS, b"\0", None, "java.nio.BufferUnderflowException", None),
        (
            TRANSACTIONS,
            b"\0\0\0\5a",
            None,
            "java.lang.RuntimeException",
            "Error reading byte array of 5 byte(s): only 1 byte(s) available",
        ),
        (
            TRANSACTIONS,
            b"\0\0\0\1t",
            b"\0\5\1",
            "java.lang.IllegalStateException",
            "Unknown version 5 from the transaction log message value",
        ),
        (TRANSACTIONS, b"\0\0\0\1t", b"\0\0\1", "java.nio.BufferUnderflowException", None),
        (
            TRANSACTIONS,
            b"\0\0\0\1t",
            transaction(transactionStatus=8),
            "java.lang.IllegalStateException",
            "Unknown transaction state id 8 from the transaction status message",
        ),
        (
            TRANSACTIONS,
            b"\0\0\0\1t",
            transaction(clientTransactionVersion=3),
            "java.lang.IllegalArgumentException",
            "No feature:transaction.version with feature level 3",
        ),
    ],
)
def test_kafkas_tool_dies(
    decoder: str, key: bytes | None, value: bytes | None, java_class: str, message: str | None
) -> None:
    with pytest.raises(JavaError) as caught:
        parse(decoder, 8, key, value)
    assert (caught.value.java_class, caught.value.text) == (java_class, message)


@pytest.mark.parametrize(
    ("topics", "order"),
    [
        (
            {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3], "c": [0, 1, 2, 3], "d": [0, 1]},
            "a-2,b-3,a-1,b-2,c-3,a-0,b-1,c-2,b-0,c-1,c-0,d-1,d-0,a-3",
        ),
        (
            {"orders": list(range(12)), "payments": [5, 3, 3]},
            "orders-7,orders-8,payments-3,orders-9,orders-10,payments-5,orders-11,orders-0,orders-1,orders-2,orders-3,"
            "orders-4,orders-5,orders-6",
        ),
        (
            {name: list(range(6)) for name in ("orders", "payments", "returns")},
            "payments-4,payments-3,payments-5,payments-0,returns-5,payments-2,payments-1,returns-3,orders-0,returns-4,"
            "orders-1,returns-1,orders-2,returns-2,orders-3,orders-4,returns-0,orders-5",
        ),
    ],
)
def test_partitions_are_in_the_order_of_a_scala_set(topics: dict[str, list[int]], order: str) -> None:
    """The expected orders were printed by Scala 2.13's mutable.HashSet."""
    partitions = [{"topic": name, "partitionIds": numbers} for name, numbers in topics.items()]
    payload = parse(TRANSACTIONS, 0, b"\0\0\0\1t", transaction(transactionPartitions=partitions))[1]
    assert f",partitions=[{order}]," in str(payload)


def test_transactions_without_partitions() -> None:
    empty = transaction(transactionStatus=0, transactionPartitions=None)
    assert "state=Empty,partitions=[]," in str(parse(TRANSACTIONS, 0, b"\0\0\0\1t", empty)[1])
    with pytest.raises(JavaError, match=r"transactionPartitions\(\)"):
        parse(TRANSACTIONS, 0, b"\0\0\0\1t", transaction(transactionPartitions=None))


def test_other_transaction_keys() -> None:
    assert parse(TRANSACTIONS, 0, bytes.fromhex("000901"), b"\1") == ("unknown::version=9", None)


@pytest.mark.parametrize(
    ("control_type", "value", "text"),
    [
        (
            3,
            "0000" + "0000018bcfe57d77" + "00",
            'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1700000005495}',
        ),
        (4, "000000", 'SnapshotFooter {"version":0}'),
        (5, "0000000100", 'KRaftVersion {"version":0,"kRaftVersion":1}'),
        (
            6,
            "0000020000000100000000000000010000000000000002020b434f4e54524f4c4c455203683123850000000001000000",
            'KRaftVoters {"version":0,"voters":[{"voterId":1,"voterDirectoryId":"AAAAAAAAAAEAAAAAAAAAAg","endpoints":'
            '[{"name":"CONTROLLER","host":"h1","port":9093}],"kRaftVersionFeature":{"minSupportedVersion":0,'
            '"maxSupportedVersion":1}}]}',
        ),
        (5, "0009000100ffff", 'KRaftVersion {"version":9,"kRaftVersion":1}'),
    ],
)
def test_control_records(control_type: int, value: str, text: str) -> None:
    assert control_text(control_type, bytes.fromhex(value)) == text


def test_control_records_that_kafkas_tool_dies_of() -> None:
    with pytest.raises(JavaError) as caught:
        control_text(3, b"\0\0\0")
    assert (caught.value.java_class, caught.value.text) == ("java.nio.BufferUnderflowException", None)
    with pytest.raises(JavaError) as caught:
        control_text(4, None)
    assert caught.value.java_class == "java.lang.NullPointerException"
