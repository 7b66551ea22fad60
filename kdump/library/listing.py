"""What is in log directories and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kdump.errors import ConfigError, KdumpError, OnError, Problem, Report, check_number, check_several, check_truths
from kdump.library.arguments import check_words, clock, places_of, read_properties, results_of
from kdump.storage.directory import LogDirectory
from kdump.storage.open import Path, path_text

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

    check_truths(count=count, metadata=metadata, outline=outline)
    time = clock(now)
    places = places_of(paths)
    request = InventoryRequest(counts=count, metadata=metadata, outline_at=time if outline else None)
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


def partitions(
    *paths: Path, topics: Iterable[str] = (), numbers: Iterable[int] | None = None
) -> tuple[str, ...]:
    """Return the partition directories at paths whose topic and number are meant, for other functions to take.

    `topics` are names and patterns such as "orders*" (none: all topics), `numbers` those of partitions (None: all).
    Raises OSError, NameFormatError; KdumpError where there is no such partition.
    """
    from kdump.operations.choice import chooses, chosen_in

    has_topic = chooses(check_words("topics", topics))
    check_several("numbers", numbers, may_be_none=True)
    wanted = None if numbers is None else list(numbers)
    for number in wanted or ():
        check_number("numbers", number, 0)
    places = places_of(paths)
    found = tuple(
        path
        for place in places
        for path in chosen_in(place, place.path, has_topic, lambda number: wanted is None or number in wanted)
    )
    if not found:
        raise KdumpError("there is no such partition in these paths")
    return found


def log_directories(config: Path | Mapping[str, str]) -> tuple[str, ...]:
    """Return the log directories that a server.properties, or its properties, names (log.dirs), as written.

    Raises OSError, CheckpointError; ConfigError where it names none.
    """
    from kdump.settings import node

    found = node.log_directories(read_properties(config))
    if not found:
        raise ConfigError(f"{'config' if isinstance(config, Mapping) else path_text(config)} has no log.dirs")
    return found
