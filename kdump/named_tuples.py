"""Named tuples that take little to make.

typing's compile each annotation and a constructor when a class is made. A command loads some hundred classes, makes
instances of half of them, and of most of those one. Here a constructor is compiled when it is called a second time.
Type checkers take these for typing's, and they behave as those do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    try:
        from _collections import _tuplegetter
    except ImportError:  # as in collections: not every Python has it in C

        def _tuplegetter(index, doc):
            from operator import itemgetter

            return property(itemgetter(index), doc=doc)

    _new = tuple.__new__

    def _first(cls, /, *values, **named):
        """Make the first instance of a class without compiling anything: of most classes there is one."""
        owner = _owner(cls)
        owner.__new__ = staticmethod(_second)
        rest = owner._fields[len(values) :]
        given = owner._field_defaults | named
        if len(values) + len(rest) == len(owner._fields) and named.keys() <= set(rest) <= given.keys():
            return _new(cls, (*values, *map(given.__getitem__, rest)))
        return _second(cls, *values, **named)

    def _second(cls, /, *values, **named):
        return _compiled(_owner(cls))(cls, *values, **named)

    def _owner(cls):
        """Return the class whose fields a class has: itself, or one that it is derived from."""
        return next(each for each in cls.__mro__ if "_fields" in vars(each))

    def _compiled(owner):
        """Return a class's constructor, compiled now unless it is."""
        made = owner.__new__
        if made in (_first, _second):
            fields = ", ".join(owner._fields)
            made = eval(f"lambda _cls, {fields}: _new(_cls, ({fields},))", {"_new": _new})
            made.__defaults__ = tuple(owner._field_defaults.values())
            made.__name__, made.__qualname__ = "__new__", f"{owner.__qualname__}.__new__"
            made.__module__ = owner.__module__
            owner.__new__ = staticmethod(made)
        return made

    class _Maker(type):
        """Makes a named tuple of each class body with annotations, which are its fields."""

        def __new__(cls, name, bases, body):
            """Return the class, with the methods and other attributes of the body."""
            fields = tuple(body.get("__annotations__", ()))
            if fields:
                defaults = {field: body[field] for field in fields if field in body}
                if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                    raise TypeError(f"{name}: a field without default follows one that has one")
                body.update(
                    __slots__=(), __new__=_first, __match_args__=fields, _fields=fields, _field_defaults=defaults
                )
                for index, field in enumerate(fields):
                    body[field] = _tuplegetter(index, None)
            return super().__new__(cls, name, bases, body)

        @property
        def __signature__(cls):
            from inspect import Signature, signature

            if not hasattr(cls, "_fields"):
                return Signature()
            made = signature(_compiled(_owner(cls)))
            return made.replace(parameters=list(made.parameters.values())[1:])

    class NamedTuple(tuple, metaclass=_Maker):
        """The base to name, as typing.NamedTuple."""

        __slots__ = ()

        @classmethod
        def _make(cls, iterable):
            made = _new(cls, iterable)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"Got unexpected field names: {list(changes)!r}")
            return made

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            values = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)
