"""What the records of a registry's topic add up to."""

from __future__ import annotations

import json
from hashlib import md5
from uuid import UUID

import pytest

from kdump.schema_registry.errors import SchemaError, UnknownSchemaError
from kdump.schema_registry.registry import State
from tests.schemas.registries import delete_subject, registry, schema_record, tombstone


def states(*records: tuple[bytes | None, bytes | None]) -> dict[tuple[str, int], State]:
    return {place: each.state for place, each in registry(*records).versions.items()}


def test_the_last_record_of_a_version_counts() -> None:
    found = registry(schema_record("a", 1, 1, "int"), schema_record("a", 1, 2, "long"))
    assert found.versions["a", 1].schema.text == "long"
    assert found.by_id(1) is not None


def test_a_version_that_is_deleted_softly_still_decodes() -> None:
    found = registry(schema_record("a", 1, 7, "int"), schema_record("a", 1, 7, "int", deleted=True))
    assert found.versions["a", 1].state is State.DELETED
    assert found.by_id(7) is not None


@pytest.mark.parametrize("value", [None, b""])
def test_a_version_that_is_removed_for_good_still_decodes(value: bytes | None) -> None:
    found = registry(schema_record("a", 1, 7, "int"), tombstone("a", 1, value))
    assert found.versions["a", 1].state is State.REMOVED
    assert found.by_id(7) is not None


def test_a_deleted_subject_is_deleted_up_to_its_version() -> None:
    records = [schema_record("a", 1, 1, "int"), schema_record("a", 2, 2, "long"), delete_subject("a", 2)]
    assert states(*records, schema_record("a", 3, 3, "float")) == {
        ("a", 1): State.DELETED,
        ("a", 2): State.DELETED,
        ("a", 3): State.ACTIVE,
    }


def test_the_latest_is_the_newest_that_is_not_deleted() -> None:
    found = registry(schema_record("a", 1, 1, "int"), schema_record("a", 2, 2, "long", deleted=True))
    latest = found.latest("a")
    assert latest is not None
    assert latest.version == 1


def test_other_keys_are_skipped() -> None:
    others = [{"keytype": kind, "subject": None, "magic": 0} for kind in ("CONFIG", "MODE", "NOOP", "CONTEXT", "LATER")]
    found = registry(*((json.dumps(key).encode(), b'{"compatibilityLevel":"FULL"}') for key in others))
    assert not found
    assert found.problems == []


@pytest.mark.parametrize("key", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_key_that_is_none_is_a_problem(key: bytes) -> None:
    found = registry((key, b"{}"))
    assert len(found.problems) == 1
    assert "not " in found.problems[0]


@pytest.mark.parametrize("said", [{"id": "7"}, {"id": -1}, {"id": True}, {"references": [1]}])
def test_a_version_that_makes_no_sense_is_a_problem(said: dict[str, object]) -> None:
    found = registry(schema_record("a", 1, 1, "int", **said))
    assert not found.versions
    assert len(found.problems) == 1


def test_a_version_without_a_schema_is_a_problem() -> None:
    key, _ = schema_record("a", 1, 1, "int")
    assert registry((key, b'{"id":1}')).problems == ["a version 1: it has no schema"]


def test_the_subject_decides_between_contexts() -> None:
    found = registry(schema_record("t-value", 1, 1, "int"), schema_record(":.other:u-value", 1, 1, "long"))
    texts = {name: schema.text for name in ("t-value", "u-value", "x-value") if (schema := found.by_id(1, name))}
    assert texts == {"t-value": "int", "u-value": "long", "x-value": "int"}


def test_of_contexts_that_both_have_the_subject_the_default_one_counts() -> None:
    found = registry(schema_record(":.other:t-value", 1, 1, "long"), schema_record("t-value", 1, 1, "int"))
    schema = found.by_id(1, "t-value")
    assert schema is not None
    assert schema.text == "int"


def test_references_come_before_what_uses_them() -> None:
    def refers(name: str) -> list[dict[str, object]]:
        return [{"name": name, "subject": name, "version": 1}]

    found = registry(
        schema_record("a", 1, 1, "int", references=refers("b")),
        schema_record("b", 1, 2, "int", references=refers("c")),
        schema_record("c", 1, 3, "int"),
    )
    schema = found.by_id(1)
    assert schema is not None
    assert [(name, each.id) for name, each in found.referenced(schema)] == [("c", 3), ("b", 2)]


def test_a_reference_that_is_not_there_is_named() -> None:
    found = registry(schema_record("a", 1, 1, "int", references=[{"name": "x.Y", "subject": "gone", "version": 4}]))
    schema = found.by_id(1)
    assert schema is not None
    with pytest.raises(UnknownSchemaError, match=r"x\.Y \(gone version 4\)"):
        found.referenced(schema)


def test_what_is_referred_to_again_and_again_is_taken_once() -> None:
    """Two ways lead from each schema to the next one: 2 to the power of 100 in all."""
    steps = 100
    records = []
    for at in range(steps + 1):
        names = () if at == steps else ("left", "right")
        references = [{"name": f"{name}{at + 1}", "subject": f"s{at + 1}", "version": 1} for name in names]
        records.append(schema_record(f"s{at}", 1, at + 1, f"t{at}", references=references))
    found = registry(*records)
    first = found.by_id(1)
    assert first is not None
    taken = [name for name, _ in found.referenced(first)]
    assert taken == [f"{side}{at}" for at in range(steps, 0, -1) for side in ("left", "right")]


def test_a_circle_of_references_is_an_error() -> None:
    found = registry(
        schema_record("a", 1, 1, "int", references=[{"name": "b", "subject": "b", "version": 1}]),
        schema_record("b", 1, 2, "int", references=[{"name": "a", "subject": "a", "version": 1}]),
    )
    schema = found.by_id(1)
    assert schema is not None
    with pytest.raises(SchemaError, match="refers to itself"):
        found.referenced(schema)


def test_a_guid_is_the_md5_of_text_and_references() -> None:
    plain = registry(schema_record("a", 1, 1, '"int"')).by_id(1)
    assert plain is not None
    assert plain.guid == md5(b'"int"').digest()
    reference = {"name": "n", "subject": "s", "version": 258}
    more = registry(schema_record("a", 1, 1, '"int"', references=[reference])).by_id(1)
    assert more is not None
    assert more.guid == md5(b'"int"ns\0\0\1\2').digest()


def test_a_guid_that_the_registry_stores_counts() -> None:
    guid = UUID(int=5)
    found = registry(schema_record("a", 1, 1, "int", guid=str(guid)))
    assert found.by_guid(guid.bytes) is found.by_id(1)


def test_no_guid_is_computed_where_rules_go_into_it() -> None:
    schema = registry(schema_record("a", 1, 1, "int", ruleSet={"domainRules": []})).by_id(1)
    assert schema is not None
    assert schema.guid is None
