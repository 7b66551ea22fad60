"""What kdump knows of Kafka's releases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kdump import releases
from kdump.releases import (
    BEHAVIOURS,
    NEWEST,
    NEWEST_METADATA_VERSION,
    KafkaRelease,
    NewerThanKnown,
    feature_levels,
    metadata_version_name,
    newest_metadata_version,
    of_metadata_version,
    release_name,
)

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("3.9", KafkaRelease.V3_9),
        ("4.1.2", KafkaRelease.V4_1),
        (" 4.3.0-rc1 ", KafkaRelease.V4_3),
        ("4.0.0-SNAPSHOT", KafkaRelease.V4_0),
        ("4.0", KafkaRelease.V4_0),
        ("4.0.2", KafkaRelease.V4_0_1),
        ("3.9.2", KafkaRelease.V3_9_1),
    ],
)
def test_parse(text: str, release: KafkaRelease) -> None:
    assert KafkaRelease.parse(text) is release


@pytest.mark.parametrize("text", ["", "4", "4.x", "2.8", "3.8.1", "4.6", "5.0", "4.1.2.3", "four"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="Kafka"):
        KafkaRelease.parse(text)


def test_releases_are_ordered() -> None:
    assert KafkaRelease.V3_9 < KafkaRelease.V4_0 < KafkaRelease.V4_5
    assert max(KafkaRelease.V4_1, NEWEST, KafkaRelease.V3_9) is NEWEST
    assert sorted({KafkaRelease.V4_1, KafkaRelease.V3_9}) == [KafkaRelease.V3_9, KafkaRelease.V4_1]


@pytest.mark.parametrize(
    ("level", "name", "release"),
    [
        (21, "3.9-IV0", KafkaRelease.V3_9_1),
        (22, "4.0-IV0", KafkaRelease.V4_0_1),
        (25, "4.0-IV3", KafkaRelease.V4_0_1),
        (26, "4.1-IV0", KafkaRelease.V4_1),
        (27, "4.1-IV1", KafkaRelease.V4_1),
        (29, "4.2-IV1", KafkaRelease.V4_2_2),
        (30, "4.3-IV0", KafkaRelease.V4_3),
        (31, "4.4-IV0", KafkaRelease.V4_4),
        (33, "4.4-IV2", KafkaRelease.V4_4),
        (34, "4.5-IV0", KafkaRelease.V4_5),
        (20, "3.8-IV0", None),
        (1, "3.0-IV1", None),
    ],
)
def test_metadata_versions(level: int, name: str, release: KafkaRelease | None) -> None:
    assert metadata_version_name(level) == name
    assert of_metadata_version(level) is release
    assert release_name(level) == name.partition("-")[0]


def test_levels_above_all_known_are_newer() -> None:
    level = NEWEST_METADATA_VERSION + 1
    assert of_metadata_version(level) == NewerThanKnown(level)
    assert metadata_version_name(level) is None
    assert release_name(level) == "newer than 4.5"


def test_levels_and_features_are_those_of_the_jars() -> None:
    """As brokers of the releases register them; 4.4.0 runs with 34, too, where unstable features are switched on."""
    assert newest_metadata_version(KafkaRelease.V4_4) == 33
    assert newest_metadata_version(KafkaRelease.V4_4, with_unstable=True) == 34
    assert newest_metadata_version(KafkaRelease.V4_5) == 34
    assert feature_levels(KafkaRelease.V4_4) == {
        "eligible.leader.replicas.version": 1, "group.version": 1, "share.version": 2, "streams.version": 1,
        "transaction.version": 2,
    }  # fmt: skip
    assert feature_levels(KafkaRelease.V4_3)["share.version"] == 1
    assert feature_levels(KafkaRelease.V3_9_1) == {}
    assert feature_levels(KafkaRelease.V4_5) == feature_levels(KafkaRelease.V4_4)


def test_behaviours_begin_and_end() -> None:
    per_batch = releases.INDEX_PER_BATCH
    has = {release.value for release in KafkaRelease if release.has(per_batch)}
    assert has == {"3.9.1", "4.0.1", "4.1", "4.2", "4.2.2", "4.3", "4.4", "4.5"}
    until = per_batch._replace(until=KafkaRelease.V4_3, backports=())
    assert {release.value for release in KafkaRelease if release.has(until)} == {"4.1", "4.2", "4.2.2"}


def test_every_behaviour_says_what_it_is() -> None:
    assert len({found.what for found in BEHAVIOURS.values()}) == len(BEHAVIOURS) > 10
    for found in BEHAVIOURS.values():
        assert found.what
        assert found.source


def test_who_asks_does_ask() -> None:
    """A behaviour that a part of kdump is said to ask for is named in its code, and the other way round."""
    files = [path for folder in ("kdump", "commands") for path in (ROOT / folder).rglob("*.py")]
    text = "".join(path.read_text() for path in files if path.name != "releases.py")
    asked = {name for name in BEHAVIOURS if re.search(rf"\b{name}\b", text)}
    assert asked == {name for name, found in BEHAVIOURS.items() if found.asked_by}


def test_the_table_in_the_docs() -> None:
    text = (ROOT / "docs" / "releases.md").read_text()
    for name, found in BEHAVIOURS.items():
        asked_by = ", ".join(found.asked_by) or "none"
        since = ", ".join(release.value for release in (found.since, *found.backports))
        assert f"| {since} | `{name}` | {found.what} | {found.source} | {asked_by} |\n" in text
    assert len(re.findall(r"^\| \d\.\d[0-9., ]* \| `", text, re.MULTILINE)) == len(BEHAVIOURS)
