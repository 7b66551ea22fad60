"""The function of `import kdump` that says which schemas records use."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.errors import KdumpError, NameFormatError, ProblemError
from tests.commands.test_schemas import data as data
from tests.test_library_operations import content


def test_schemas_and_what_uses_them(data: Path) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("google.protobuf")
    before = content(data)
    found = kdump.schemas(data)
    assert found.source == str(data / "_schemas-0")
    assert (len(list(found.registry.schemas)), found.problems) == (3, {})
    uses = {each.topic: each for each in found.uses}
    assert uses["orders"].value.schemas == {1: 1}
    assert uses["orders"].value.undecodable == {1: 1}
    assert uses["orders"].value.unknown == {9: 1}
    assert uses["events"].value.messages == {(2, "acme.Order"): 1}
    (alone,) = kdump.schemas(data / "events-0", source=data / "_schemas-0", deep=True).uses
    assert not alone.has_findings
    assert content(data) == before


def test_damage_is_raised_or_skipped(data: Path) -> None:
    pytest.importorskip("fastavro")
    (path,) = (data / "orders-1").glob("*.log")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ProblemError) as raised:
        kdump.schemas(data)
    assert raised.value.problem.path == str(path)
    assert {each.topic for each in kdump.schemas(data, errors="skip").uses} == {"events", "orders"}


def test_wrong_calls(data: Path) -> None:
    with pytest.raises(KdumpError, match="no _schemas-0 is among"):
        kdump.schemas(data / "orders-0")
    with pytest.raises(FileNotFoundError):
        kdump.schemas(data / "nothing")
    with pytest.raises(NameFormatError):
        kdump.schemas(next((data / "orders-0").glob("*.log")))
    with pytest.raises(ValueError, match="one result"):
        kdump.schemas(data, errors="yield")
