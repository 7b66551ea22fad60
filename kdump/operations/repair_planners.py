"""What plans for a partition: by a strategy, from other copies of it, for its indexes, for the ends of its files."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from kdump.errors import check_type
from kdump.mend.proposal import examine, examine_trim
from kdump.mend.replicas import check_only_copy, replicas_of, why_not_only_copy
from kdump.mend.task import Request, Strategy, Task
from kdump.operations.repair import Planner
from kdump.operations.targets import Bases
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters
from kdump.topics.topic_ids import TopicIds

if TYPE_CHECKING:
    from kdump.operations.heal_sources import Sources


def by_request(request: Request, *, checks_copies: bool, applies: bool) -> Planner:
    """Return what plans as a request asks for; a decision that is left to the user says where other replicas are.

    With `checks_copies` a salvage of what other brokers have is refused where it `applies`; else its plan says so.
    Raises TypeError, ValueError for a request of something else.
    """
    check_type("request", request, Request)
    request.check()

    @cache
    def topic_ids(clusters: Clusters) -> TopicIds:
        return TopicIds(clusters)

    def planned(log: PartitionLog, start: Startup, _: Bases, clusters: Clusters) -> Task:
        task = examine(log, start, request, topic_ids(clusters))
        if checks_copies and task.salvaged is not None and task.salvaged.given_up:
            replicas = replicas_of(log, clusters)
            if applies:
                check_only_copy(log, replicas)
            elif why := why_not_only_copy(log, replicas):
                task = task._replace(notes=(*task.notes, f"{why[0]}. --apply needs --only-copy, if {why[1]} gone"))
        if task.decision is None:
            return task
        return task._replace(decision=task.decision._replace(replicas=replicas_of(log, clusters)))

    return Planner("repair" if request.strategy == Strategy.SAFE else f"repair {request.strategy}", planned)


def from_copies(sources: Sources, log_start: int | None, *, unproved: bool = False) -> Planner:
    """Return what takes what partitions lack from copies of them; `log_start` and `unproved` are as for `plan_heal`."""
    from kdump.operations.heal import plan_heal

    def planned(log: PartitionLog, start: Startup, _: Bases, clusters: Clusters) -> Task:
        return plan_heal(log, start, sources, clusters, log_start, unproved=unproved)

    return Planner("repair from", planned, missing=sources.missing_in)


def of_indexes(kinds: Collection[str], *, wants_all: bool) -> Planner:
    """Return what rebuilds indexes of these kinds; `wants_all`: sound ones, too, as `examine_indexes` has it."""
    from kdump.mend.indexes import examine_indexes

    wanted = frozenset(kinds)

    def planned(log: PartitionLog, start: Startup, bases: Bases, _: Clusters) -> Task:
        return examine_indexes(log, start, wanted, bases, wants_all=wants_all)

    return Planner("rebuild-index", planned, takes_files=True)


def of_ends() -> Planner:
    """Return what cuts logs and indexes behind their last valid batch or entry."""
    return Planner("trim", lambda log, _start, bases, _clusters: examine_trim(log, bases), takes_files=True)
