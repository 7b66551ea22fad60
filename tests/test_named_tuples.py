"""Our named tuples beside typing's: made, read, compared, shown and refused alike."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest

from kdump import named_tuples


class Batch(named_tuples.NamedTuple):
    """A class of a module, as pickle needs it."""

    offset: int
    size: int = 5
    name: str = "none"

    @property
    def end(self) -> int:
        return self.offset + self.size

    @classmethod
    def at(cls, offset: int) -> Batch:
        return cls(offset, name="at")


class Part(Batch):
    """One with the fields of another class."""

    __slots__ = ()

    @property
    def end(self) -> int:
        return super().end + 1


FIELDS = {"offset": int, "size": int, "name": str}


def made(base: Any, **defaults: object) -> Any:
    """A new class: nothing has called it yet."""
    return type(base)("Batch", (base,), {"__module__": __name__, "__annotations__": FIELDS, **defaults})


def pair() -> tuple[Any, Any]:
    class Batch(typing.NamedTuple):
        offset: int
        size: int = 5
        name: str = "none"

    return made(named_tuples.NamedTuple, size=5, name="none"), Batch


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error)


VALUES: list[tuple[int, ...]] = [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)]
NAMED: list[dict[str, int]] = [{}, {"offset": 7}, {"size": 7}, {"name": 7}, {"size": 7, "name": 8}, {"other": 7}]
NAMED += [{"name": 8, "size": 7, "offset": 6}, {"cls": 1}, {"_cls": 1}, {"values": 1}]


@pytest.mark.parametrize("before", [0, 1, 2])
def test_instances_are_those_of_typing(before: int) -> None:
    """The first, the second and the third call of a class each have their own way."""
    for values, named in product(VALUES, NAMED):
        ours, theirs = pair()
        for _ in range(before):
            assert ours(0) == (0, 5, "none")
        found, expected = (outcome(partial(cls, *values, **named)) for cls in (ours, theirs))
        assert found == expected, (values, named)
        if not isinstance(found, type):
            assert type(found) is ours
            assert repr(found) == repr(expected).replace(type(expected).__qualname__, "Batch")


def test_classes_are_those_of_typing() -> None:
    ours, theirs = pair()
    for name in ("_fields", "_field_defaults", "__match_args__", "__name__"):
        assert getattr(ours, name) == getattr(theirs, name), name
    for called in range(3):
        assert str(inspect.signature(ours)).replace("'", "") == "(offset, size=5, name=none)", called
        ours(called)
    assert issubclass(ours, tuple)
    assert not hasattr(ours(1), "__dict__")


@pytest.mark.parametrize("cls", [Batch, Part])
def test_what_named_tuples_can_do(cls: type[Batch]) -> None:
    one = cls(1, name="one")
    assert (one.offset, one.size, one.name) == tuple(one) == (1, 5, "one")
    assert one._replace(size=9) == (1, 9, "one")
    assert type(one._replace(size=9)) is cls
    assert one._asdict() == {"offset": 1, "size": 5, "name": "one"}
    assert cls._make([1, 5, "one"]) == one
    assert type(cls.at(3)) is cls
    assert one.end == 6 + (cls is Part)
    assert repr(one) == f"{cls.__name__}(offset=1, size=5, name='one')"
    assert {one: 1}[cls(1, 5, "one")] == 1
    for again in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert again == one
        assert type(again) is cls
    match one:
        case Batch(1, size, name=name):
            assert (size, name) == (5, "one")
        case _:
            pytest.fail("no match")


def test_what_is_refused() -> None:
    one = Batch(1)
    for call in (
        lambda: one._replace(other=1),  # type: ignore[call-arg]
        lambda: Batch._make([1, 2]),
        lambda: Batch._make([1, 2, "3", 4]),
        lambda: setattr(one, "offset", 2),
        lambda: setattr(one, "other", 2),
        lambda: made(named_tuples.NamedTuple, offset=1),
    ):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            call()
