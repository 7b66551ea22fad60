"""Random histories of keys, tombstones, transactions and clocks against a model of what compaction promises."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import kdump
from kdump.change.apply import apply_plan
from kdump.change.place import new_change
from kdump.check.options import Options
from kdump.check.run import Verification
from kdump.clean.cleaning import Cleaning
from kdump.findings.kind import ERROR
from kdump.mend.as_broker import plan_recovery
from kdump.recovery.startup import Startup
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.loading import LoadingSettings
from tests.clean.building import batch, clean_once, contents, in_txn, marker, name, state_of

RETENTION = 1000
KEYS = [b"%d" % number for number in range(5)]
LOADING = LoadingSettings(index_interval_bytes=100)


class Append(NamedTuple):
    """A batch of these keys and values: plain (None), or of this producer's transaction."""

    producer: int | None
    pairs: list[tuple[bytes, bytes | None]]
    codec: int


class End(NamedTuple):
    """The end of a producer's transaction, if it has one open."""

    producer: int
    commit: bool


class Roll(NamedTuple):
    """A new segment."""


class Pass(NamedTuple):
    """A pass of the cleaner, so much later (ms), with a map for so many keys."""

    later: int
    keys: int
    exact: bool


PAIRS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from((b"1", b"22", None))), min_size=1, max_size=4)
APPEND = st.builds(Append, st.sampled_from((None, None, 7, 8)), PAIRS, st.sampled_from((0, 0, 1)))
END = st.builds(End, st.sampled_from((7, 8)), st.booleans())
PASS = st.builds(Pass, st.sampled_from((0, 1, 400, 999, 1000, 1001, 5000)), st.integers(1, 6), st.booleans())
STEPS = st.lists(st.one_of(APPEND, APPEND, APPEND, END, st.just(Roll()), PASS), min_size=5, max_size=40)


@dataclass
class History:
    """The partition on disk, and everything that was ever written to it."""

    partition: Path
    config: CleaningSettings
    now: int = 1_000_000
    end: int = 0
    active: int = 0
    recovered: int = 0
    records: dict[int, tuple[bytes, bytes | None]] = field(default_factory=dict)
    open: dict[int, list[int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    horizons: dict[int, int] = field(default_factory=dict)

    def append(self, step: Append) -> None:
        """Write a batch."""
        offset, producer = self.end, step.producer
        if producer is None:
            data = batch(offset, *step.pairs, timestamp=self.now, attributes=step.codec)
        else:
            sequence = self.sequences.get(producer, 0)
            data = in_txn(offset, producer, *step.pairs, sequence=sequence, timestamp=self.now, attributes=step.codec)
            self.sequences[producer] = sequence + len(step.pairs)
            self.open.setdefault(producer, []).extend(range(offset, offset + len(step.pairs)))
        for at, pair in enumerate(step.pairs, offset):
            self.records[at] = pair
        self._write(data, len(step.pairs))

    def finish(self, step: End) -> None:
        """End a transaction."""
        if step.producer in self.open:
            offsets = self.open.pop(step.producer)
            if not step.commit:
                self.aborted.update(offsets)
            self._write(marker(self.end, step.producer, commit=step.commit, timestamp=self.now), 1)

    def roll(self) -> None:
        """Begin a segment."""
        if self.end > self.active:
            self.active = self.end
            (self.partition / name(self.end, "log")).touch()

    def _write(self, data: bytes, count: int) -> None:
        with open(self.partition / name(self.active, "log"), "ab") as log:
            log.write(data)
        self.end += count

    def recover(self) -> None:
        """Let the files beside the logs be what a broker has."""
        startup = Startup(self.now, recovery_point=self.recovered, config=LOADING)
        outcome, plan = plan_recovery(kdump.open_log(str(self.partition)), startup)
        assert outcome.ok, outcome.failure
        assert not outcome.loss.has_data
        assert plan is not None
        apply_plan(plan, new_change(str(self.partition)), keep_old=False)
        self.recovered = self.end
        if self.end:  # what loading an empty log forgets of the first epoch
            (self.partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")

    def newest(self) -> dict[bytes, int]:
        """The offset of the newest record of each key that a read_committed consumer gets."""
        unsure = {offset for offsets in self.open.values() for offset in offsets}
        return {
            key: offset
            for offset, (key, _) in sorted(self.records.items())
            if offset not in self.aborted and offset not in unsure
        }

    def clean(self, step: Pass) -> Cleaning | None:
        """Let the cleaner pass, if it would, and hold what comes out against what it promises."""
        self.now += step.later
        config = self.config._replace(map_bytes=(24 if not step.exact else 161) * step.keys, load_factor=1.0)
        state = state_of(self.partition, config, self.now)
        if not state.is_due(config):
            return None
        before = {offset: (key, value) for offset, key, value in contents(self.partition)}
        cleaning = clean_once(self.partition, config, self.now, exact=step.exact)
        after = {offset: (key, value) for offset, key, value in contents(self.partition)}
        self._check(before, after, state.first_uncleanable_offset)
        return cleaning

    def _check(self, before: Mapping[int, object], after: Mapping[int, object], uncleanable: int) -> None:
        assert after.items() <= before.items()
        assert {at for at in before if at >= uncleanable} <= after.keys()
        for offset in self.newest().values():
            if offset in after or offset not in before:
                continue
            assert self.records[offset][1] is None, f"the newest value of a key is gone: {offset}"
            assert offset in self.horizons, f"a tombstone was dropped by the first pass that met it: {offset}"
            assert self.now >= self.horizons[offset], f"a tombstone was dropped before its horizon: {offset}"
        for found in kdump.open_log(str(self.partition)).records():
            if isinstance(found, kdump.Record) and found.offset in self.records and found.value is None:
                self._note_horizon(found.offset)

    def _note_horizon(self, offset: int) -> None:
        """A tombstone was kept by a pass: from when on may it go?"""
        for found in kdump.open_log(str(self.partition)).batches(offset, offset + 1):
            assert isinstance(found, kdump.Batch)
            if found.delete_horizon is not None:
                known = self.horizons.setdefault(offset, found.delete_horizon)
                assert known == found.delete_horizon
                assert found.delete_horizon >= self.records_time(found) + RETENTION

    def records_time(self, found: kdump.Batch) -> int:
        """When the batch was written."""
        return found.max_timestamp - 10

    def verify(self) -> None:
        """Nothing in the directory is wrong."""
        options = Options(deep=True, now=self.now, jobs=1)
        findings = Verification(options).run([str(self.partition)])
        assert [found for found in findings if found.severity == ERROR] == []


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(STEPS, st.integers(200, 2000), st.integers(100, 600), st.sampled_from((0, 0, 500)))
def test_passes_over_random_histories(steps: list[NamedTuple], segment: int, buffer: int, lag: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        partition = Path(scratch) / "users-0"
        partition.mkdir()
        (partition / name(0, "log")).touch()
        (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
        config = CleaningSettings(
            min_cleanable_ratio=0.0,
            delete_retention_ms=RETENTION,
            segment_bytes=segment,
            buffer_bytes=buffer,
            min_compaction_lag_ms=lag,
            loading=LOADING,
        )
        history = History(partition, config)
        passes = 0
        for step in [*steps, Roll(), Append(None, [(b"end", b"1")], 0), Pass(0, 6, False), Pass(5000, 6, False)]:
            if isinstance(step, Append):
                history.append(step)
            elif isinstance(step, End):
                history.finish(step)
            elif isinstance(step, Roll):
                history.roll()
            elif isinstance(step, Pass):
                history.recover()
                passes += history.clean(step) is not None
                history.verify()
                assert os.listdir(partition)
        event(f"{min(passes, 4)} passes")
