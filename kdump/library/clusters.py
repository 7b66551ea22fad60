"""The operations across the disks of several nodes: copies, the quorum of a cluster, and a dead cluster's new life."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kdump.errors import OnError, Problem, Report, check_several, check_truths, check_type

if TYPE_CHECKING:
    from kdump.change.change import Change
    from kdump.cluster.quorum import Quorum
    from kdump.cluster.resurrection import Resurrection
    from kdump.cluster.set_voters import NewVoters, VoterAt
    from kdump.cluster.wanted import Wanted
    from kdump.operations.cluster import Resurrected
    from kdump.operations.compared import PartitionReplicas

from kdump.library.arguments import clock, judge, optional, places_of, properties_of, results_of
from kdump.storage.open import Path, path_texts


def replicas(
    *paths: Path,
    now: int | None = None,
    config: Path | Mapping[str, str] | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[PartitionReplicas | Problem]:
    """Yield each partition with its copies compared, and what each choice of leader would lose.

    Paths are log directories of several brokers, or partition directories; an empty directory is the disk of a broker
    that has lost all. `now` is the brokers' clock (ms), `config` a properties file, or properties, of theirs. What a
    broker would make of a copy at its next start counts.
    Raises OSError, NameFormatError, ConfigError.
    """
    from kdump.operations.replicas import Replicas, is_empty

    given = path_texts(paths)
    empty = [path for path in given if is_empty(path)]
    places = places_of([path for path in given if path not in empty])
    time, properties = clock(now), None if config is None else properties_of(config)

    def found(report: Report) -> Iterable[PartitionReplicas]:
        return Replicas(places, time, report, empty=len(empty), properties=properties).partitions()

    return results_of(found, errors)


def quorum(*paths: Path, errors: str = OnError.RAISE) -> Quorum:
    """Compare the copies of a KRaft quorum's log: who has what, and who could win with whom.

    Paths are log directories with a __cluster_metadata-0, of controllers and of brokers. With `errors="skip"` the
    copies' own `problems` say what of them cannot be read. Raises OSError, KdumpError where there is no copy.
    """
    from kdump.operations.quorum import quorum_at

    policy = OnError.beside_one_result(errors)
    problems: list[Problem] = []
    found = quorum_at(path_texts(paths), problems.append)
    for problem in problems:
        judge(problem, policy, [])
    return found


class VotersSet(NamedTuple):
    """Other voters for a quorum: the `plan`, and the `changes` that were made (none unless it was applied)."""

    plan: NewVoters
    changes: tuple[Change, ...] = ()


def set_voters(
    *paths: Path,
    voters: Iterable[VoterAt | str],
    others_are_gone: bool = False,
    accepts_loss: bool = False,
    apply: bool = False,
    now: int | None = None,
    errors: str = OnError.RAISE,
) -> VotersSet:
    """Plan a record that makes these nodes the only voters of a dynamic quorum and, with `apply`, append it.

    `paths` are all copies of the metadata log that are left, as for `quorum`. `voters` are VoterAt, or NODE@HOST:PORT.
    `others_are_gone`: no old voter that is not among the paths can lead any more. `accepts_loss`: what the newest copy
    has and the chosen one lacks may be lost. `now` (ms) is the record's timestamp. The plan has `refusals`; `apply`
    raises the first as RefusedError. Raises OSError, KdumpError, ValueError.
    """
    from kdump.cluster.set_voters import names_twice, plan_voters
    from kdump.operations.quorum import apply_voters

    check_truths(apply=apply, others_are_gone=others_are_gone, accepts_loss=accepts_loss)
    time = clock(now)
    check_several("voters", voters)
    wanted = [_voter(each) for each in voters]
    if not wanted or names_twice(wanted):
        raise ValueError("voters names a node twice" if wanted else "voters names no node")
    found = quorum(*paths, errors=errors)
    plan = plan_voters(found, wanted, others_are_gone=others_are_gone, accepts_loss=accepts_loss)
    return VotersSet(plan, tuple(apply_voters(plan, time)) if apply else ())


def _voter(given: VoterAt | str) -> VoterAt:
    """Return a voter that makes sense. Raises ValueError, TypeError."""
    from kdump.cluster.set_voters import VoterAt

    try:
        voter = VoterAt.parse(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"voters: {error}") from None
    check_type("voters", voter, VoterAt)
    voter.check()
    return voter


class Resurrecting(NamedTuple):
    """A new cluster out of a dead one's disks: the `plan`, and what was `done` (None unless it was applied)."""

    plan: Resurrection
    done: Resurrected | None = None


def resurrect(
    *paths: Path,
    into: Path | None = None,
    in_place: bool = False,
    wanted: Wanted | None = None,
    apply: bool = False,
    now: int | None = None,
    errors: str = OnError.RAISE,
) -> Resurrecting:
    """Plan a working cluster from the log directories of dead brokers and controllers and, with `apply`, make it.

    It is made in the new directory `into`, or of the paths themselves with `in_place`. `wanted` says what it shall be,
    `now` (ms) is the time of its metadata. The plan has `refusals`; `apply` raises the first as RefusedError. With
    `errors="skip"` its `problems` say what cannot be read. Raises OSError, KdumpError, ValueError.
    """
    from kdump.cluster.wanted import Wanted
    from kdump.operations import cluster

    policy = OnError.beside_one_result(errors)
    given, target, time = path_texts(paths), optional(into, "into"), clock(now)
    check_truths(apply=apply, in_place=in_place)
    if (target is None) != in_place:
        raise ValueError("give one of into and in_place")
    if target is not None and any(cluster.lies_in(target, path) for path in given):
        raise ValueError(f"into is {target}, which lies in one of the paths: name a directory outside, or in_place")
    check_type("wanted", wanted, Wanted, may_be_none=True)
    asked = wanted or Wanted()
    asked.check()
    plan = cluster.plan(given, asked, now=time, in_place=in_place)
    for problem in plan.problems:
        judge(problem, policy, [])
    return Resurrecting(plan, cluster.apply(plan, target, time) if apply else None)
