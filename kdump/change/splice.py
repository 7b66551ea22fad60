"""Put other bytes in the place of ranges of a planned file."""

from __future__ import annotations

from collections.abc import Iterable

from kdump.storage.recipe import NewContent, Part, Recipe, joined, parts_of, piece_of


def spliced(recipe: Recipe, changes: Iterable[tuple[int, int, bytes]]) -> Recipe:
    """Return the recipe with other bytes in place of those from byte `start` to `stop`, for each (start, stop, bytes).

    The ranges are in order and do not overlap; an empty one is where something is put in between.
    """
    parts: list[Part] = []
    at = 0
    for start, stop, data in changes:
        parts += parts_of(piece_of(recipe, at, start - at))
        parts += parts_of(NewContent(data, len(data)))
        at = stop
    return joined((*parts, *parts_of(piece_of(recipe, at, recipe.size - at))))
