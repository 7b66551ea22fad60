"""Named tuples and dataclasses that take little to make.

Of named tuples, typing's own compiles each annotation when a class is made, though nobody asks for it: with some
hundred classes that a command loads, a fifth of its start. A dataclass takes three to five times as long as that. Type
checkers take these for typing's and dataclasses' own, and named tuples are made of the same namedtuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    _OWN = frozenset({"__module__", "__qualname__"})
    """What a class body has that namedtuple sets itself."""

    class _Maker(type):
        """Makes a namedtuple of each class body with annotations."""

        def __new__(cls, name, bases, body):
            """Return the tuple's class, with the methods and other attributes of the body."""
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            for key, value in body.items():
                if key not in _OWN:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """The base to name, as typing.NamedTuple."""


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
else:

    class _Field(NamedTuple):
        """What a field has besides its name."""

        default_factory: object = None
        compare: bool = True

    field = _Field

    def dataclass(cls=None, *, frozen=False):
        """Let a class take the values of its annotated fields when it is made, and be compared by them.

        Type checkers take this for a dataclass, and see to it that one that is `frozen` stays as it is. Unlike
        dataclasses' own it compiles nothing, and does not load `inspect`.
        """
        if cls is None:
            return lambda found: dataclass(found, frozen=frozen)
        own = cls.__annotations__
        special = {name: vars(cls)[name] for name in own if isinstance(vars(cls).get(name), _Field)}
        makers = {name: each.default_factory for name, each in special.items() if each.default_factory is not None}
        for name in special:
            delattr(cls, name)
        fields = cls.__match_args__ = (*getattr(cls, "__match_args__", ()), *own)
        compared = [name for name in fields if name not in special or special[name].compare]
        needed = {name for name in fields if name not in makers and not hasattr(cls, name)}
        known = frozenset(fields)

        def __init__(self, *values, **named):  # noqa: N807
            found = self.__dict__
            found.update(zip(fields, values, strict=False))
            found.update(named)
            if not needed <= found.keys() <= known or len(values) > len(fields):
                raise TypeError(f"{cls.__qualname__} is made of {', '.join(fields)}")
            for name, make in makers.items():
                if name not in found:
                    found[name] = make()

        def values_of(self):
            return [getattr(self, name) for name in compared]

        cls.__init__ = __init__
        cls.__replace__ = lambda self, **changes: cls(**vars(self) | changes)
        cls.__eq__ = lambda self, other: values_of(self) == values_of(other) if type(other) is cls else NotImplemented
        cls.__hash__ = (lambda self: hash(tuple(values_of(self)))) if frozen else None
        cls.__repr__ = lambda self: f"{cls.__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in fields)})"
        return cls
