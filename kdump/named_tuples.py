"""Named tuples that take little to make.

typing's own compiles each annotation when a class is made, though nobody asks for it: with some hundred classes that a
command loads, a fifth of its start. Type checkers take these for typing's, and they are made of the same namedtuple.
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
