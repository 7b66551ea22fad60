"""Random appends, rolls, transactions, leader epochs, crashes and recoveries, against a list of batches in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kdump.change.apply import apply_plan
from kdump.change.place import new_change
from kdump.formats.batch import TRANSACTIONAL
from kdump.formats.checkpoints import parse_leader_epochs
from kdump.formats.codecs import GZIP, NONE, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.mend.as_broker import plan_recovery
from kdump.operations.open_log import open_log
from kdump.settings.writing import WritingSettings
from kdump.storage.indexes import TxnIndex
from kdump.storage.open import open_log as read_log
from kdump.write.incoming import AppendInfo
from kdump.write.log_writer import LogWriter
from kdump.write.packing import Packing
from kdump.write.record_source import Message, RecordSource
from kdump.write.sessions import Producer
from tests.write.building import NOW, Clock, last_stable_offset, records, startup

PRODUCERS = (3, 4)
CONFIG = WritingSettings(segment_bytes=1500, index_interval_bytes=200, segment_index_bytes=96)
Row = tuple[int, int, bytes | None, bytes | None]


@dataclass
class Sent:
    """A batch of the model: its records as (offset, timestamp, key, value), and what it means to its producer."""

    rows: list[Row]
    segment: int
    end: int
    producer: int = -1
    transactional: bool = False
    ends: str = ""
    last_offset: int = field(init=False)

    def __post_init__(self) -> None:
        self.last_offset = self.rows[-1][0]


class LogMachine(RuleBasedStateMachine):
    """A log that is written to, and what has to be in it."""

    @initialize(preallocate=st.booleans(), per_batch=st.booleans())
    def begin(self, preallocate: bool, per_batch: bool) -> None:
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "orders-0")
        self.config = WritingSettings(
            CONFIG.segment_bytes,
            index_interval_bytes=CONFIG.index_interval_bytes,
            segment_index_bytes=CONFIG.segment_index_bytes,
            preallocate=preallocate,
            index_per_batch=per_batch,
        )
        self.log = LogWriter.create(self.path, self.config, clock=Clock(), durable=False)
        self.sent: list[Sent] = []
        self.epochs: list[tuple[int, int]] = []
        self.epoch = self.number = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    # --- what is done ------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 6), codec=st.sampled_from([NONE, GZIP, ZSTD]), columns=st.booleans())
    def append(self, count: int, codec: int, columns: bool) -> None:
        messages = self.messages(count)
        packing = Packing(codec=codec, batch_records=4)
        for first in range(0, count, 4):
            part = messages[first : first + 4]
            (info,) = self.log.append(RecordSource.of(part) if columns else part, packing)
            self.note(info, part)

    @rule(producer=st.sampled_from(PRODUCERS), transactional=st.booleans(), count=st.integers(1, 3))
    def produce(self, producer: int, transactional: bool, count: int) -> None:
        transactional = transactional or producer in self.open_txns()
        messages = self.messages(count)
        (info,) = Producer(producer, is_transactional=transactional).send(self.log, messages)
        assert not info.duplicate
        self.note(info, messages, producer=producer, transactional=transactional)

    @precondition(lambda self: self.open_txns())
    @rule(data=st.data(), commit=st.booleans())
    def end_transaction(self, data: st.DataObject, commit: bool) -> None:
        producer = data.draw(st.sampled_from(sorted(self.open_txns())))
        info = self.log.end_transaction(producer, 0, is_commit=commit, timestamp=NOW)
        marker = Message(b"\0\0\0\0\0\0", b"\0\0\0\1" if commit else b"\0\0\0\0", NOW)
        self.note(info, [marker], producer=producer, ends="commit" if commit else "abort")

    @precondition(lambda self: any(each.producer in PRODUCERS and not each.ends for each in self.sent))
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        last = {each.producer: each for each in self.sent if each.producer >= 0 and not each.ends}
        batch = last[data.draw(st.sampled_from(sorted(last)))]
        known = self.log.states.producers[batch.producer].last_sequence
        header = NewBatch(
            TRANSACTIONAL if batch.transactional else 0, batch.producer, 0, known - len(batch.rows) + 1, base_offset=0
        )
        again = [NewRecord(at, row[1], row[2], row[3]) for at, row in enumerate(batch.rows)]
        info = self.log.append_as_leader(encode_batch(again, header))
        assert (info.duplicate, info.last_offset) == (True, batch.last_offset)

    @rule(gap=st.integers(0, 3), count=st.integers(1, 3))
    def follow(self, gap: int, count: int) -> None:
        messages = self.messages(count)
        first = self.log.end_offset + gap
        rows = [NewRecord(first + at, each.timestamp, each.key, each.value) for at, each in enumerate(messages)]
        info = self.log.append_as_follower(encode_batch(rows, NewBatch(leader_epoch=self.epoch)))
        self.note(info, messages, first=first)

    @rule()
    def elect(self) -> None:
        self.epoch += 1
        self.log.become_leader(self.epoch)
        self.assign(self.log.end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.reopen()

    @rule(torn=st.integers(0, 300), garbage=st.sampled_from([b"", bytes(40), b"\xff" * 90]))
    def crash(self, torn: int, garbage: bytes) -> None:
        base, size, point = self.log.active.base_offset, self.log.active.size, self.log.recovery_point
        self.log.close(clean=False)
        left = max(0, size - torn)
        if torn and not any(garbage):  # zeros could complete a batch again
            garbage = b""
        path = os.path.join(self.path, f"{base:020d}.log")
        if torn or garbage:
            os.truncate(path, left)
            with open(path, "ab") as file:
                file.write(garbage)
        self.sent = [each for each in self.sent if each.segment != base or each.end <= left]
        log = read_log(self.path)
        outcome, plan = plan_recovery(log, startup(recovery_point=point, config=self.config.loading))
        assert outcome.failure is None
        assert plan is not None
        apply_plan(plan, new_change(plan.path), keep_old=False)
        self.reopen()

    def reopen(self) -> None:
        self.log = open_log(self.path, self.config, clock=Clock(), durable=False)
        end = self.sent[-1].last_offset + 1 if self.sent else 0
        assert self.log.end_offset == max(end, self.log.active.base_offset)
        self.epochs = [each for each in self.epochs if each[1] < self.log.end_offset]
        self.epoch = self.epochs[-1][0] if self.epochs else 0
        assert self.log.leader_epoch == self.epoch

    # --- the model ---------------------------------------------------------------------------------------------------

    def messages(self, count: int) -> list[Message]:
        self.number += count
        return [
            Message(b"v" * (number % 50), b"k%d" % number, NOW + number * 37 % 1000)
            for number in range(self.number - count, self.number)
        ]

    def note(self, info: AppendInfo, messages: list[Message], first: int | None = None, **how: Any) -> None:
        first = info.first_offset if first is None else first
        rows = [(first + at, each.timestamp, each.key, each.value) for at, each in enumerate(messages)]
        self.sent.append(Sent(rows, self.log.active.base_offset, self.log.active.size, **how))
        self.assign(first)

    def assign(self, offset: int) -> None:
        if not self.epochs or self.epochs[-1][0] != self.epoch:
            self.epochs = [each for each in self.epochs if each[1] < offset]
            self.epochs.append((self.epoch, offset))

    def transactions(self) -> tuple[dict[int, int], list[tuple[int, int, int, int]]]:
        """Where the transaction of each producer is open from, and those that were aborted."""
        begun: dict[int, int] = {}
        aborted = []
        for each in self.sent:
            if each.ends:
                first = begun.pop(each.producer)
                if each.ends == "abort":
                    stable = min([*begun.values(), each.last_offset + 1])
                    aborted.append((each.producer, first, each.last_offset, stable))
            elif each.transactional:
                begun.setdefault(each.producer, each.rows[0][0])
        return begun, aborted

    def open_txns(self) -> dict[int, int]:
        return self.transactions()[0]

    # --- what has to hold --------------------------------------------------------------------------------------------

    @invariant()
    def holds_what_was_sent(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.end_offset >= (self.sent[-1].last_offset + 1 if self.sent else 0)
        begun, aborted = self.transactions()
        assert self.log.states.open_txns == {offset: producer for producer, offset in begun.items()}
        assert last_stable_offset(self.log) == min([*begun.values(), self.log.end_offset])
        assert self.on_disk("txnindex") == aborted
        with open(os.path.join(self.path, "leader-epoch-checkpoint"), "rb") as file:
            assert [tuple(each) for each in parse_leader_epochs(file.read(), "")] == self.epochs

    def on_disk(self, kind: str) -> list[tuple[int, int, int, int]]:
        found = []
        for name in sorted(os.listdir(self.path)):
            if name.endswith(kind):
                with TxnIndex(os.path.join(self.path, name)) as index:
                    found += [(producer, first, last, stable) for _, producer, first, last, stable in index]
        return found

    @rule()
    def read(self) -> None:
        expected = [row for each in self.sent for row in each.rows]
        self.log.close()
        assert [(each.offset, each.timestamp, each.key, each.value) for each in records(self.path)] == expected
        self.reopen()


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
