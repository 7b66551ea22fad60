"""Which batches a healed log is put together from, without any command: the whole result of each merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.errors import RefusedError
from kdump.formats.checkpoints import EpochEntry, format_leader_epochs
from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewRecord, encode_wrapper
from kdump.replication.heal import Divergence, Healing, Peer, fitting_epochs, heal
from kdump.replication.healed_segments import FoundBatch, NewSegment, Taken, segment_base
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import NewContent, SourceBytes, parts_of
from tests.recovery.building import broken
from tests.replicas.building import Sent, chain

Batches = Sequence[Sent | bytes]
EPOCH_0 = (EpochEntry(0, 0),)


def content(batches: Batches) -> bytes:
    return b"".join(each if isinstance(each, bytes) else each.data for each in batches)


def log(
    root: Path, name: str, segments: Mapping[int, Batches], epochs: Sequence[tuple[int, int]] | None = None
) -> PartitionLog:
    folder = root / name / "t-0"
    folder.mkdir(parents=True)
    for base, batches in segments.items():
        (folder / f"{base:020d}.log").write_bytes(content(batches))
    if epochs is not None:
        entries = format_leader_epochs(EpochEntry(*each) for each in epochs)
        (folder / "leader-epoch-checkpoint").write_bytes(entries)
    return PartitionLog(str(folder))


def made(log_: PartitionLog, segment: NewSegment) -> bytes:
    """The bytes of a segment that a merge makes."""
    found = b""
    for part in parts_of(segment.recipe):
        assert not isinstance(part, NewContent)
        data = (Path(log_.path) / part.name).read_bytes()
        found += data[part.start : part.start + part.size]
    return found


def size(*batches: Sent) -> int:
    return len(content(batches))


def taken(peer: PartitionLog, *batches: Sent) -> Taken:
    return Taken(peer.path, batches[0].base, batches[-1].end - 1, sum(each.count for each in batches), size(*batches))


ALL = chain(0, (0, 8))
"""Offsets 0 to 39."""
WHOLE = Healing((), (), (), 0, 40, EPOCH_0)


def merged(
    own: PartitionLog, *peers: PartitionLog | Peer, terms: Sequence[tuple[int, int]] = (), has_gaps: bool = False,
    start: int | None = None,
) -> tuple[Healing, dict[int, bytes]]:  # fmt: skip
    """The result, its segments as bytes."""
    others = [each if isinstance(each, Peer) else Peer(each) for each in peers]
    found = heal(own, others, [EpochEntry(*each) for each in terms], has_gaps=has_gaps, start=start)
    return replace(found, segments=()), {each.base_offset: made(own, each) for each in found.segments}


def test_nothing_is_lacking(tmp_path: Path) -> None:
    own, peer = log(tmp_path, "a", {0: ALL[:3], 15: ALL[3:]}), log(tmp_path, "b", {0: ALL})
    assert merged(own, peer) == (WHOLE, {})
    shorter = log(tmp_path, "c", {0: ALL[:2]})
    assert merged(own, shorter, peer) == (WHOLE, {})


def test_a_hole_is_filled_in_the_segment_that_it_is_in(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: [*ALL[:2], *ALL[4:6]], 30: ALL[6:]})
    peer = log(tmp_path, "b", {0: ALL[:3], 15: ALL[3:]})
    found, segments = merged(own, peer)
    assert found == replace(WHOLE, taken=(taken(peer, *ALL[2:4]),))
    assert segments == {0: content(ALL[:6])}


def test_damage_is_replaced_and_what_is_behind_it_stays(tmp_path: Path) -> None:
    for bad in range(8):
        batches: list[Sent | bytes] = list(ALL)
        batches[bad] = broken(ALL[bad].data)
        own, peer = log(tmp_path, f"a{bad}", {0: batches}), log(tmp_path, f"b{bad}", {0: ALL})
        found, segments = merged(own, peer)
        assert found == replace(WHOLE, taken=(taken(peer, ALL[bad]),), first_damaged=5 * bad)
        assert segments == {0: content(ALL)}


def test_what_no_copy_has_is_lacking(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: [*ALL[:2], *ALL[4:]]})
    peer = log(tmp_path, "b", {0: [*ALL[:3], *ALL[5:7]]})
    found, segments = merged(own, peer)
    assert found == replace(WHOLE, taken=(taken(peer, ALL[2]),), lacking=((15, 19),))
    assert segments == {0: content([*ALL[:3], *ALL[4:]])}
    found, _ = merged(own, peer, has_gaps=True)
    assert found.lacking == ()


def test_only_so_many_ranges_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken are 5-9, 15-19 and 25-29; nobody has 10-14, 20-24 and 30-34."""
    own = log(tmp_path, "a", {0: [ALL[0], ALL[7]]})
    peer = log(tmp_path, "b", {0: ALL[1:6:2]})
    singles = [taken(peer, each) for each in ALL[1:6:2]]
    lacking = ((10, 14), (20, 24), (30, 34))
    for most, told in (
        (4, singles),
        (3, singles),
        (2, [singles[0], Taken(peer.path, 15, 29, 10, size(ALL[3], ALL[5]))]),
        (1, [Taken(peer.path, 5, 29, 15, size(ALL[1], ALL[3], ALL[5]))]),
    ):
        monkeypatch.setattr("kdump.replication.heal.MAX_LISTED", most)
        assert replace(merged(own, peer)[0], unproved=()) == replace(WHOLE, taken=tuple(told), lacking=lacking[:most])
    monkeypatch.setattr("kdump.replication.heal.MAX_LISTED", 4)
    assert merged(own, peer, has_gaps=True)[0].taken == (Taken(peer.path, 5, 29, 15, size(ALL[1], ALL[3], ALL[5])),)


def test_each_copy_gives_what_the_ones_before_it_have_not(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: ALL[:1]})
    first, second = log(tmp_path, "b", {0: [*ALL[:3], *ALL[5:6]]}), log(tmp_path, "c", {0: ALL})
    found, segments = merged(own, first, second)
    expected = (taken(first, *ALL[1:3]), taken(second, *ALL[3:5]), taken(first, ALL[5]), taken(second, *ALL[6:]))
    assert found == replace(WHOLE, taken=expected)
    assert segments == {0: content(ALL)}


def test_damage_behind_the_end_is_told(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: [*ALL[:4], broken(ALL[4].data), broken(ALL[5].data)]})
    found, segments = merged(own, log(tmp_path, "b", {0: ALL[:3]}))
    assert found == replace(WHOLE, end=20, first_damaged=20, last_damaged=29)
    assert segments == {0: content(ALL[:4])}
    found, _ = merged(own, log(tmp_path, "c", {0: ALL[:6]}))
    assert (found.end, found.last_damaged, found.first_damaged) == (30, None, 20)
    single = log(tmp_path, "d", {0: [*ALL[:4], broken(Sent(20, 1, 0).data)]})
    assert merged(single, log(tmp_path, "e", {0: ALL[:3]}))[0].last_damaged == 20


def test_only_offsets_within_the_peer_s_bounds_are_taken(tmp_path: Path) -> None:
    own, peer = log(tmp_path, "a", {0: ALL[:1], 35: ALL[7:]}), log(tmp_path, "b", {0: ALL})
    for start, stop, batches in (
        (0, None, ALL[1:7]), (10, 20, ALL[2:4]), (11, 21, ALL[3:4]), (9, 19, ALL[2:3]), (14, 25, ALL[3:5]),
        (15, 24, ALL[3:4]), (30, None, ALL[6:7]),
    ):  # fmt: skip
        found, _ = merged(own, Peer(peer, stop, start))
        assert found.taken == (taken(peer, *batches),), (start, stop)


def test_a_log_begins_where_its_first_segment_does(tmp_path: Path) -> None:
    own, peer = log(tmp_path, "a", {20: ALL[4:]}), log(tmp_path, "b", {0: ALL})
    late = replace(WHOLE, start=20, epochs=(EpochEntry(0, 20),), before=0)
    assert merged(own, peer) == (late, {})
    assert merged(own, peer, start=20) == (late, {})
    assert merged(own, peer, start=25) == (late, {})
    assert merged(own, log(tmp_path, "c", {20: ALL[4:]}))[0] == replace(late, before=None)
    assert merged(own, log(tmp_path, "d", {25: ALL[5:]}))[0] == replace(late, before=None)
    assert merged(own, log(tmp_path, "e", {25: ALL[5:]}), peer)[0] == late


@pytest.mark.parametrize(("start", "first"), [(0, 0), (4, 0), (5, 1), (6, 1), (15, 3), (19, 3)])
def test_what_was_lost_in_front_comes_back(tmp_path: Path, start: int, first: int) -> None:
    own, peer = log(tmp_path, "a", {20: ALL[4:]}), log(tmp_path, "b", {0: ALL[:2], 10: ALL[2:]})
    found, segments = merged(own, peer, start=start)
    base = 5 * first
    expected = replace(WHOLE, start=base, epochs=(EpochEntry(0, base),), taken=(taken(peer, *ALL[first:4]),))
    assert found == replace(expected, before=0 if base else None)
    parts = {base: ALL[first:2], 10: ALL[2:4]} if first < 2 else {base: ALL[first:4]}
    assert segments == {each: content(batches) for each, batches in parts.items()}


def test_the_front_of_a_peer_that_has_none_stays_lost(tmp_path: Path) -> None:
    own, short = log(tmp_path, "a", {20: ALL[4:]}), log(tmp_path, "b", {0: ALL[:2]})
    found, segments = merged(own, short, start=12)
    assert (found.start, found.before, segments) == (20, 0, {})
    found, segments = merged(own, short, log(tmp_path, "c", {15: ALL[3:]}), start=12)
    assert (found.start, found.before, segments) == (15, 0, {15: content(ALL[3:4])})


def test_a_copy_without_anything_gets_it_all(tmp_path: Path) -> None:
    own, peer = log(tmp_path, "a", {}), log(tmp_path, "b", {10: ALL[2:4], 20: ALL[4:]})
    found, segments = merged(own, peer)
    expected = replace(WHOLE, start=10, epochs=(EpochEntry(0, 10),), taken=(taken(peer, *ALL[2:]),))
    assert found == expected
    assert segments == {10: content(ALL[2:4]), 20: content(ALL[4:])}
    assert merged(own, log(tmp_path, "c", {})) == (Healing((), (), (), 0, 0, ()), {})


def test_an_empty_segment_at_the_end_of_a_compacted_log(tmp_path: Path) -> None:
    own, peer = log(tmp_path, "a", {0: ALL[:2], 30: []}), log(tmp_path, "b", {0: ALL[:2]})
    assert merged(own, peer, has_gaps=True)[0].end == 30
    assert merged(own, peer)[0].end == 10
    full = log(tmp_path, "c", {0: ALL[:2], 30: [broken(ALL[6].data)]})
    assert merged(full, peer, has_gaps=True)[0].end == 10
    longer = log(tmp_path, "d", {0: ALL})
    assert merged(own, longer, has_gaps=True)[0].end == 40


NEWER = [*ALL[:4], *chain(20, (2, 4))]
"""From offset 20 on records of leader epoch 2."""
EPOCHS = (EpochEntry(0, 0), EpochEntry(2, 20))


def test_epochs_are_those_of_the_batches(tmp_path: Path) -> None:
    own, peer = log(tmp_path, "a", {0: NEWER[:5]}), log(tmp_path, "b", {0: NEWER})
    found, _ = merged(own, peer)
    assert (found.epochs, found.taken) == (EPOCHS, (taken(peer, *NEWER[5:]),))
    old = encode_wrapper([NewRecord(offset, 1000, b"k", b"v") for offset in range(5)], 1, GZIP)
    own = log(tmp_path, "c", {0: [old, *NEWER[1:]]})
    peer = log(tmp_path, "d", {0: [old, *NEWER[1:]]})
    found, segments = merged(own, peer)
    assert (found.epochs, found.lacking, segments) == ((EpochEntry(0, 5), EpochEntry(2, 20)), ((0, 3),), {})
    wiped = log(tmp_path, "e", {0: []})
    found, _ = merged(wiped, peer)
    assert found.taken[0].records == 1 + 5 * 7


def test_an_older_copy_has_nothing_to_give_where_they_part(tmp_path: Path) -> None:
    own, older = log(tmp_path, "a", {0: NEWER}), log(tmp_path, "b", {0: ALL})
    with pytest.raises(
        RefusedError, match=r"b/t-0 has an older history: leader epoch 0 at offset 20, where .*a/t-0 has 2"
    ):
        merged(own, older)
    whole = log(tmp_path, "c", {0: NEWER})
    for peers in ((older, whole), (whole, older)):
        assert merged(own, *peers)[0] == replace(WHOLE, epochs=EPOCHS)
    holed = log(tmp_path, "d", {0: [*NEWER[:5], *NEWER[6:]]})
    for peers in ((older, whole), (whole, older)):
        found, segments = merged(holed, *peers)
        assert (found.taken, segments) == ((taken(whole, NEWER[5]),), {0: content(NEWER)})


def test_a_newer_history_parts_from_the_copy_s_own(tmp_path: Path) -> None:
    """Its broker will cut that by itself: nothing is put in the place of valid records."""
    own, newer = log(tmp_path, "a", {0: [*ALL[:1], *ALL[2:]]}), log(tmp_path, "b", {0: NEWER})
    found, segments = merged(own, newer)
    assert found == replace(WHOLE, taken=(taken(newer, ALL[1]),), diverged=Divergence(20, 0, 2))
    assert segments == {0: content(ALL)}
    older = log(tmp_path, "c", {0: [*ALL, *chain(40, (0, 3))]})
    found, _ = merged(own, newer, older)
    assert (found.end, found.diverged) == (40, Divergence(20, 0, 2))
    newest = log(tmp_path, "d", {0: [*ALL[:5], *chain(25, (3, 3))]})
    assert merged(own, newer, newest)[0].diverged == Divergence(20, 0, 2)


def test_between_two_others_the_newer_history_counts(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: ALL[:3]})
    newer, older = log(tmp_path, "b", {0: NEWER}), log(tmp_path, "c", {0: ALL})
    for peers in ((newer, older), (older, newer)):
        found, segments = merged(own, *peers)
        assert (found.end, found.epochs, segments) == (40, EPOCHS, {0: content(NEWER)})
        assert content(NEWER[4:]) in segments[0]


def test_the_copy_of_the_latest_leader_is_right_whatever_stands_where_they_part(tmp_path: Path) -> None:
    """In between an older leader may have had a higher epoch."""
    own = log(tmp_path, "a", {0: ALL[:3]})
    late = log(tmp_path, "b", {0: ALL}, epochs=[(0, 0), (5, 40)])
    newer = log(tmp_path, "c", {0: NEWER}, epochs=[(0, 0), (2, 20)])
    for peers in ((late, newer), (newer, late)):
        assert merged(own, *peers)[1] == {0: content(ALL)}
    unread = log(tmp_path, "d", {0: ALL})
    Path(unread.path, "leader-epoch-checkpoint").write_text("nonsense")
    for peers in ((PartitionLog(unread.path), newer), (newer, PartitionLog(unread.path))):
        assert merged(own, *peers)[1] == {0: content(NEWER)}


def test_other_bytes_of_one_epoch_are_refused(tmp_path: Path) -> None:
    other = [*ALL[:3], Sent(15, 5, 0, "x"), *ALL[4:]]
    own, peer = log(tmp_path, "a", {0: ALL}), log(tmp_path, "b", {0: other})
    with pytest.raises(RefusedError, match=r"different valid records from offset 15 on: kdump cannot know which"):
        merged(own, peer)
    short = log(tmp_path, "c", {0: ALL[:2]})
    for peers in ((own, peer), (peer, own)):
        with pytest.raises(RefusedError, match=r"\(leader epochs 0 and 0\)"):
            merged(short, *peers)


@pytest.mark.parametrize(
    ("terms", "kept"),
    [([(0, 0)], 0), ([(0, 0), (7, 15)], 7), ([(0, 0), (7, 16)], 0), ([(7, 0)], 7), ([(0, 0), (7, 15), (9, 20)], 7)],
)
def test_the_epoch_file_says_whose_leader_epoch_is_right(
    tmp_path: Path, terms: list[tuple[int, int]], kept: int
) -> None:
    """No CRC covers it: one of two copies has a flipped bit there."""
    tail = chain(20, (kept, 4))
    right, wrong = ([*ALL[:3], Sent(15, 5, epoch, "0"), *tail] for epoch in (kept, 7 - kept))
    for number, (mine, other) in enumerate(((right, wrong), (wrong, right))):
        own = log(tmp_path, f"a{number}", {0: mine})
        found, segments = merged(own, log(tmp_path, f"b{number}", {0: other}), terms=terms)
        assert segments.get(0, content(mine)) == content(right)
        assert bool(found.taken) == (mine is not right)


def test_newer_records_are_not_put_before_own_older_ones(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: [*ALL[:4], broken(ALL[4].data), *ALL[5:]]})
    peer = log(tmp_path, "b", {0: NEWER[:5]})
    with pytest.raises(RefusedError, match=r"leader epoch 0 from offset 25 on, and the other copy has leader epoch 2"):
        merged(own, peer)
    same = log(tmp_path, "c", {0: [*NEWER[:4], broken(NEWER[4].data), *NEWER[5:]]})
    assert merged(same, peer)[1] == {0: content(NEWER)}


def test_an_older_leader_s_tail_is_not_put_behind_a_newer_one_s(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: NEWER[:5]})
    tail = log(tmp_path, "b", {25: ALL[5:]})
    with pytest.raises(RefusedError, match=r"b/t-0 has an older history: leader epoch 0 at offset 25, after 2"):
        merged(own, tail)
    own = log(tmp_path, "c", {0: ALL[:5]})
    for terms in ([(0, 0), (2, 25)], [(0, 0), (2, 20)]):
        with pytest.raises(RefusedError, match=r"leader epoch 0 at offset 25, after 2"):
            merged(own, tail, terms=terms)
    assert merged(own, tail, terms=[(0, 0), (2, 41)])[0].end == 40
    # a term in which nothing was written does not count where the other one knows of a later leader
    for epoch, fails in ((2, True), (3, False)):
        later = log(tmp_path, f"d{epoch}", {25: ALL[5:]}, epochs=[(0, 0), (epoch, 40)])
        if fails:
            with pytest.raises(RefusedError):
                merged(own, later, terms=[(0, 0), (2, 25)])
        else:
            assert merged(own, later, terms=[(0, 0), (2, 25)])[0].end == 40


def test_batches_that_overlap_are_refused(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: [ALL[0], broken(ALL[1].data), *ALL[2:]]})
    peer = log(tmp_path, "b", {0: [ALL[0], Sent(5, 7, 0)]})
    with pytest.raises(RefusedError, match=r"a/t-0: its batch 10.14 overlaps the batch before it in another copy"):
        merged(own, peer)


def test_segments_that_nothing_valid_is_in_go(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: ALL[:2], 10: [broken(ALL[2].data)], 12: [broken(Sent(12, 3, 0).data)], 15: ALL[3:]})
    peer = log(tmp_path, "b", {0: ALL})
    found, segments = merged(own, peer)
    assert (found.gone, segments) == ((12,), {10: content(ALL[2:3])})
    own = log(tmp_path, "c", {0: ALL[:2], 10: [broken(ALL[2].data)], 15: [broken(ALL[3].data)]})
    found, segments = merged(own, log(tmp_path, "d", {0: ALL[:2]}))
    assert (found.gone, found.end, segments) == ((15,), 10, {})


def test_new_segments_begin_where_the_peer_s_do_and_the_copy_has_nothing(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: ALL[:1], 30: ALL[6:]})
    peer = log(tmp_path, "b", {0: ALL[:3], 15: ALL[3:5], 25: ALL[5:]})
    _, segments = merged(own, peer)
    assert segments == {0: content(ALL[:3]), 15: content(ALL[3:5]), 25: content(ALL[5:6])}
    # but not before more of the copy's own in the same segment
    own = log(tmp_path, "c", {0: [*ALL[:1], *ALL[4:6]], 30: ALL[6:]})
    _, segments = merged(own, peer)
    assert segments == {0: content(ALL[:5] + ALL[5:6])}
    # the copy's own first segment stays the first
    own = log(tmp_path, "d", {0: [broken(ALL[0].data)], 20: ALL[4:]})
    _, segments = merged(own, peer)
    assert segments == {0: content(ALL[:3]), 15: content(ALL[3:4])}


def test_a_segment_has_no_more_than_2_gib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, peer = log(tmp_path, "a", {0: ALL[:1]}), log(tmp_path, "b", {0: ALL})
    for most, parts in ((size(*ALL[:3]), ALL[3:6]), (size(*ALL[:3]) - 1, ALL[2:4])):
        monkeypatch.setattr("kdump.replication.healed_segments.MAX_LOG_SIZE", most)
        _, segments = merged(own, peer)
        bases = list(segments)
        assert bases[1] == parts[0].base
        assert b"".join(segments.values()) == content(ALL)
        assert max(map(len, segments.values())) <= most


@pytest.mark.parametrize(
    ("base", "name", "position", "expected"),
    [(10, f"{5:020d}.log", 0, 5), (10, f"{5:020d}.log", 1, 10), (10, f"{12:020d}.log", 0, 10), (10, "x.log", 0, 10),
     (10, f"{10:020d}.log", 0, 10)],
)  # fmt: skip
def test_the_segment_of_a_batch(base: int, name: str, position: int, expected: int) -> None:
    batch = FoundBatch(base, base + 4, 0, 1, 100, 5, f"/somewhere/{name}", position)
    assert segment_base(batch) == expected
    assert NewSegment(expected, parts_of_nothing()).name == f"{expected:020d}.log"


def parts_of_nothing() -> NewContent:
    return NewContent(b"", 0)


SHOWN = replace(WHOLE, epochs=(EpochEntry(0, 3), EpochEntry(2, 20)))


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        # the copy's own where it fits, also what it says of the end
        ([(0, 0), (2, 20)], [], [(0, 0), (2, 20)]),
        ([(0, 3), (2, 20)], [[(0, 0), (2, 20)]], [(0, 3), (2, 20)]),
        ([(0, 0), (2, 20), (3, 40)], [], [(0, 0), (2, 20), (3, 40)]),
        ([(0, 0), (2, 20), (3, 41)], [], [(0, 0), (2, 20)]),
        ([(0, 0), (1, 10), (2, 20)], [], [(0, 0), (1, 10), (2, 20)]),
        # another's only up to the end
        ([], [[(0, 0), (2, 20), (3, 40)]], [(0, 0), (2, 20)]),
        ([], [[(0, 0), (2, 20), (3, 39)]], [(0, 0), (2, 20), (3, 39)]),
        # those that do not fit
        ([(0, 4), (2, 20)], [], [(0, 3), (2, 20)]),
        ([(0, 0), (2, 19)], [], [(0, 3), (2, 20)]),
        ([(0, 0), (2, 21)], [], [(0, 3), (2, 20)]),
        ([(0, 0)], [], [(0, 3), (2, 20)]),
        ([(2, 20), (0, 0)], [], [(0, 3), (2, 20)]),
        ([(0, 0), (2, 20), (2, 20)], [], [(0, 3), (2, 20)]),
        ([], [], [(0, 3), (2, 20)]),
        ([(0, 4), (2, 20)], [[(0, 0)], [(0, 1), (2, 20)]], [(0, 1), (2, 20)]),
    ],
)
def test_which_epochs_fit(
    own: list[tuple[int, int]], others: list[list[tuple[int, int]]], expected: list[tuple[int, int]]
) -> None:
    lists = [[EpochEntry(*each) for each in entries] for entries in (own, *others)]
    assert fitting_epochs(lists[0], lists[1:], SHOWN) == [EpochEntry(*each) for each in expected]


ONES = chain(0, (0, 12), size=1)


def test_batches_of_one_record(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: [*ONES[:3], *ONES[5:7]]})
    peer = log(tmp_path, "b", {0: ONES})
    found, segments = merged(own, peer)
    assert found == replace(WHOLE, end=12, taken=(taken(peer, *ONES[3:5]), taken(peer, *ONES[7:])))
    assert segments == {0: content(ONES)}
    found, _ = merged(own, Peer(peer, 9, 4))
    assert found.taken == (taken(peer, ONES[4]), taken(peer, *ONES[7:9]))


def test_a_batch_across_the_start_is_not_taken(tmp_path: Path) -> None:
    """Of the first batch of all a cleaner may have left a part too."""
    own, peer = log(tmp_path, "a", {0: ALL[1:]}), log(tmp_path, "b", {0: ALL})
    for start in (1, 4):
        found, _ = merged(own, Peer(peer, None, start))
        assert (found.taken, found.lacking) == ((), ((0, 4),))
    assert merged(own, peer)[0].taken == (taken(peer, ALL[0]),)


def test_a_batch_across_the_first_segment_s_base_offset_is_none_of_its_front(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {20: ALL[4:]})
    peer = log(tmp_path, "b", {16: [Sent(16, 6, 0), *ALL[5:]]})
    assert merged(own, log(tmp_path, "c", {0: ALL}), start=20)[0].start == 20
    with pytest.raises(RefusedError, match="overlaps"):
        merged(own, peer, start=20)


def test_offsets_may_be_empty_by_right_only_where_that_is_said(tmp_path: Path) -> None:
    own, peer = log(tmp_path, "a", {0: [*ALL[:2], *ALL[3:]]}), log(tmp_path, "b", {0: ALL[:2]})
    assert heal(own, [Peer(peer)]).lacking == ((10, 14),)


def test_a_copy_of_another_history_gives_nothing_from_there_on(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: [*ALL[:5], broken(ALL[5].data), *ALL[6:]]})
    found, _ = merged(own, log(tmp_path, "b", {0: NEWER}))
    assert (found.taken, found.lacking, found.diverged) == ((), ((25, 29),), Divergence(20, 0, 2))


def test_without_any_leader_epoch_known_the_batch_that_has_none_is_right(tmp_path: Path) -> None:
    none, some = ([*ALL[:3], Sent(15, 5, epoch, "0")] for epoch in (-1, 7))
    for number, (mine, other) in enumerate(((none, some), (some, none))):
        found, segments = merged(log(tmp_path, f"a{number}", {0: mine}), log(tmp_path, f"b{number}", {0: other}))
        assert segments.get(0, content(mine)) == content(none)
        assert found.diverged is None


def test_a_segment_that_begins_at_the_last_offset_of_a_batch_goes(tmp_path: Path) -> None:
    own = log(tmp_path, "a", {0: ALL[:2], 10: [broken(ALL[2].data)], 14: [broken(Sent(14, 1, 0).data)], 15: ALL[3:]})
    found, _ = merged(own, log(tmp_path, "b", {0: ALL}))
    assert found.gone == (14,)


def test_what_follows_directly_in_a_file_is_one_piece(tmp_path: Path) -> None:
    own, peer = log(tmp_path, "a", {0: [*ALL[:2], *ALL[5:]]}), log(tmp_path, "b", {0: ALL})
    (segment,) = heal(own, [Peer(peer)]).segments
    name = f"{0:020d}.log"
    assert parts_of(segment.recipe) == (
        SourceBytes(name, 0, size(*ALL[:2])),
        SourceBytes(str(Path(peer.path) / name), size(*ALL[:2]), size(*ALL[2:5])),
        SourceBytes(name, size(*ALL[:2]), size(*ALL[5:])),
    )
