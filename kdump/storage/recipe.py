"""A future file as parts of present ones: a range of a file that is there already, or new content.

Nothing is written here; whoever wants the files makes them by the recipes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class SourceBytes(NamedTuple):
    """`size` bytes from byte `start` on of the file `name`, as it is in the directory now."""

    name: str
    start: int
    size: int


class NewContent(NamedTuple):
    """`data`, followed by zeros up to `size` bytes."""

    data: bytes
    size: int


Part = SourceBytes | NewContent


class Joined(NamedTuple):
    """Several ranges of one file that is there already, one after another; new content may stand between them."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """The size of the whole in bytes."""
        return sum(part.size for part in self.parts)


Recipe = Part | Joined


def parts_of(recipe: Recipe) -> tuple[Part, ...]:
    """Return what a recipe puts one after another; nothing for an empty file."""
    if isinstance(recipe, Joined):
        return recipe.parts
    return (recipe,) if recipe.size else ()


def piece_of(recipe: Recipe, start: int, size: int) -> Recipe:
    """Return the recipe for `size` bytes from byte `start` on of the file that `recipe` makes; both must lie in it."""
    if isinstance(recipe, SourceBytes):
        return SourceBytes(recipe.name, recipe.start + start, size)
    if isinstance(recipe, NewContent):
        return NewContent(recipe.data[start : start + size], size)
    pieces: list[Part] = []
    for part in recipe.parts:
        skipped = min(start, part.size)
        taken = min(size, part.size - skipped)
        pieces += parts_of(piece_of(part, skipped, taken))
        start, size = start - skipped, size - taken
    return joined(pieces)


def joined(parts: Iterable[Part]) -> Recipe:
    """Return the recipe for these, one after another; ranges that follow each other in a file become one."""
    merged: list[Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(last, SourceBytes) and isinstance(part, SourceBytes) and _end(last) == (part.name, part.start):
            merged[-1] = last._replace(size=last.size + part.size)
        else:
            merged.append(part)
    if not merged:
        return NewContent(b"", 0)
    return merged[0] if len(merged) == 1 else Joined(tuple(merged))


def _end(part: SourceBytes) -> tuple[str, int]:
    return part.name, part.start + part.size
