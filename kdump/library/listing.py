"""What is in log directories and partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.errors import OnError, Problem, Report
from kdump.library.arguments import clock, places_of, results_of
from kdump.storage.directory import LogDirectory
from kdump.storage.open import Path

if TYPE_CHECKING:
    from kdump.operations.inventory import ListedDirectory
    from kdump.query.inventory import PartitionInfo
    from kdump.storage.broker import Duplicate


def ls(
    *paths: Path,
    count: bool = False,
    metadata: bool = True,
    outline: bool = False,
    now: int | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[ListedDirectory | PartitionInfo | Duplicate | Problem]:
    """Yield the facts about log directories with all their partitions, and about partition directories.

    Last comes a Duplicate for each partition that is in several directories of one broker. With `count` all batches are
    read: else record counts and codecs of large segments are None. What the cluster's metadata says counts if it is at
    hand, unless `metadata` is False. With `outline` each partition has one: what the cleaner, at the time `now` (ms),
    may clean, and the offsets that matter. What is damaged, left over or cannot be parsed is among the facts.
    Raises OSError, NameFormatError.
    """
    from kdump.operations.inventory import Inventory, InventoryRequest, Unread

    places = places_of(paths)
    request = InventoryRequest(counts=count, metadata=metadata, outline_at=clock(now) if outline else None)
    inventory = Inventory([place.path for place in places], request)

    def found(report: Report) -> Iterator[ListedDirectory | PartitionInfo | Duplicate]:
        for place in places:
            try:
                rows = inventory.directory(place) if isinstance(place, LogDirectory) else inventory.partition(place)
                for row in rows:
                    if isinstance(row, Unread):
                        report(Problem.unreadable(row.path, row.error))
                    else:
                        yield row
            except OSError as error:
                report(Problem.unreadable(place.path, error))
        yield from inventory.duplicates()

    return results_of(found, errors)
