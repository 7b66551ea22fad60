"""Which directories of several brokers are copies of one partition."""

from __future__ import annotations

from itertools import permutations

from kdump.formats.names import DELETE, FUTURE, LIVE, STRAY, PartitionDirName, State
from kdump.replication.joined import Found, Joined, PartitionKey, join
from kdump.storage.broker import BrokerIdentity

HERE, THERE = "cluster-a", "cluster-b"
FIRST, SECOND = b"1" * 16, b"2" * 16
NO_OWNER = "no meta.properties"


def found(
    broker: int | str | None, topic_id: bytes | None = None, *, cluster: str | None = HERE, name: str = "t",
    partition: int = 0, state: State = LIVE,
) -> Found:  # fmt: skip
    owner = None if broker == NO_OWNER else BrokerIdentity(cluster, broker)  # type: ignore[arg-type]
    return Found(f"/{broker}/{name}-{partition}", PartitionDirName(name, partition, None, state), owner, topic_id)


def joined(*directories: Found) -> list[Joined]:
    """The partitions, which must not depend on the order of the directories."""
    first = list(join(directories))
    keys = [each.key for each in first]
    for order in permutations(directories):
        again = list(join(order))
        assert [each.key for each in again] == keys
        assert [sorted(map(id, each.copies)) for each in again] == [sorted(map(id, each.copies)) for each in first]
    return first


def brokers(partition: Joined) -> list[int | None]:
    return [copy.broker for copy in partition.copies]


def test_copies_of_one_partition_are_in_the_order_of_their_brokers() -> None:
    (one,) = joined(found(2, FIRST), found(NO_OWNER, FIRST), found(0, FIRST), found(1, FIRST))
    assert one.key == PartitionKey("t", 0, FIRST, HERE)
    assert brokers(one) == [0, 1, 2, None]
    assert one.namesakes == ()


def test_partitions_of_one_topic_stand_one_after_the_other() -> None:
    found_ = joined(found(1, FIRST, partition=10), found(1, FIRST, partition=9), found(1, name="a", partition=11))
    assert [(each.key.topic, each.key.partition) for each in found_] == [("a", 11), ("t", 9), ("t", 10)]


def test_topics_of_the_same_name_are_kept_apart_and_know_of_each_other() -> None:
    first, second = joined(found(1, FIRST), found(2, SECOND))
    assert (first.key.topic_id, first.namesakes) == (FIRST, (SECOND,))
    assert (second.key.topic_id, second.namesakes) == (SECOND, (FIRST,))


def test_a_directory_without_a_topic_id_goes_with_the_only_topic_of_its_name() -> None:
    (one,) = joined(found(1, FIRST), found(2))
    assert brokers(one) == [1, 2]
    assert (one.key.topic_id, one.namesakes) == (FIRST, ())


def test_a_directory_without_a_topic_id_goes_with_none_of_two_topics() -> None:
    unknown, first, second = joined(found(1, FIRST), found(2, SECOND), found(3))
    assert (unknown.key.topic_id, brokers(unknown), unknown.namesakes) == (None, [3], (FIRST, SECOND))
    assert (brokers(first), brokers(second)) == ([1], [2])


def test_another_topic_s_id_says_nothing() -> None:
    other, unknown = joined(found(1, FIRST, name="other"), found(2))
    assert (other.key.topic_id, unknown.key.topic_id) == (FIRST, None)


def test_partitions_of_one_topic_have_one_id() -> None:
    first, second = joined(found(1, FIRST), found(1, partition=1))
    assert (first.key.topic_id, second.key.topic_id) == (FIRST, FIRST)


def test_clusters_are_kept_apart() -> None:
    here, there = joined(found(1, FIRST), found(2, FIRST, cluster=THERE))
    assert (here.key.cluster_id, there.key.cluster_id) == (HERE, THERE)
    assert (here.namesakes, there.namesakes) == ((), ())


def test_the_same_name_in_another_cluster_is_no_namesake() -> None:
    here, there = joined(found(1, FIRST), found(2, SECOND, cluster=THERE))
    assert (here.namesakes, there.namesakes) == ((), ())


def test_a_directory_without_a_cluster_goes_with_the_only_one() -> None:
    (one,) = joined(found(1, FIRST), found(2, FIRST, cluster=None), found(NO_OWNER, FIRST))
    assert one.key.cluster_id == HERE
    assert brokers(one) == [1, 2, None]


def test_a_directory_without_a_cluster_goes_with_none_of_two() -> None:
    unknown, here, there = joined(found(3, FIRST, cluster=None), found(1, FIRST), found(2, FIRST, cluster=THERE))
    assert [each.key.cluster_id for each in (unknown, here, there)] == [None, HERE, THERE]


def test_no_cluster_is_known() -> None:
    (one,) = joined(found(1, FIRST, cluster=None), found(NO_OWNER))
    assert one.key == PartitionKey("t", 0, FIRST, None)
    assert brokers(one) == [1, None]


def test_what_no_broker_serves_stands_aside() -> None:
    aside = [found(number, FIRST, state=state) for number, state in enumerate((FUTURE, DELETE, STRAY), 2)]
    (one,) = joined(found(1, FIRST), *aside)
    assert brokers(one) == [1]
    assert sorted(each.broker or 0 for each in one.aside) == [2, 3, 4]


def test_broker_0_is_a_broker() -> None:
    (one,) = joined(found(NO_OWNER, FIRST), found(0, FIRST), found(None, FIRST))
    assert brokers(one)[0] == 0


def test_brokers_0_and_1_stand_in_their_order() -> None:
    (one,) = join([found(1, FIRST), found(0, FIRST)])
    assert brokers(one) == [0, 1]
