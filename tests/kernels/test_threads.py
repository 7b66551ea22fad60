"""What the compiled kernels read and write while they let go of the GIL, or call what is not theirs.

An object that is used by two threads, or by what it calls itself, refuses; payloads are kept. Without that some tests
here end in a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from kdump.blocks import BatchBlock, RecordBlock
from kdump.formats.codecs import GZIP, NONE
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.kernels.portable.rows import RowColumn
from kdump.kernels.row_kinds import ROW_INT64
from kdump.storage.payloads import inflate
from tests.kernels import reading
from tests.kernels.reading import only_native, walked

pytestmark = only_native

NATIVE: Any = reading.NATIVE

ROUNDS = 300
MANY = 400
TWO_AT_ONCE = "used by two threads at once"

Call = Callable[[], object]


class Calling(RecordBlock):
    """A block of records which calls a function when a kernel asks for its column of offsets."""

    calls: Call | None = None

    def __getattribute__(self, name: str) -> Any:
        if name == "offset" and (call := type(self).calls):
            call()
        return super().__getattribute__(name)


class Log:
    """A log in memory, decoded, and each object of the kernels with a call that works and those that must wait."""

    def __init__(self, records: int = 3, value: int = 200, codec: int = NONE) -> None:
        content = [NewRecord(at, at, b"key %d" % at, bytes(value), ((b"h", b"x"),)) for at in range(records)]
        self.block: BatchBlock = walked(NATIVE, encode_batch(content, NewBatch(attributes=codec)))
        self.records = Calling()
        self.records.seek(0)
        self.payloads = inflate(self.block, 0, 1).payloads
        NATIVE.decode(self.block, self.records, 0, 1, self.payloads)

    def columns(self, call: Call) -> tuple[Call, list[Call]]:
        columns = NATIVE.RecordColumns(
            ["offset"], True, True, True, control=True, most_rows=1 << 20, most_bytes=1 << 30
        )
        everything = range(self.records.length)
        add = partial(columns.add, self.block, self.records, 0, self.payloads, everything)
        return self._calling(call, add), [columns.take, add]

    def offsets(self, call: Call) -> tuple[Call, list[Call]]:
        keys = NATIVE.OffsetMap(24 << 20, 1 << 19)
        take = partial(keys.take, self.block, self.records, 0, self.payloads, b"\1", 0)
        classify = partial(keys.classify, self.block, self.records, 0, self.payloads, 99, 0, True, 0, 1)
        others: list[Call] = [partial(keys.put, b"key", 1), partial(keys.get, b"key"), take, classify]
        return self._calling(call, take), others

    def verdicts(self, call: Call) -> tuple[Call, list[Call]]:
        _, others = self.offsets(call)
        return self._calling(call, others[-1]), others

    def text(self, call: Call) -> tuple[Call, list[Call]]:
        text = NATIVE.LogText(True, True, False, lambda number, value: b"")
        render = partial(text.render, self.block, 0, 1, self.payloads)
        return partial(render, lambda _: call()), [
            partial(render, len), partial(text.flush, len), text.restart,
        ]  # fmt: skip

    def held_text(self, call: Call) -> tuple[Call, list[Call]]:
        text = NATIVE.LogText(True, True, False, lambda number, value: b"", hold=True)
        render = partial(text.render, self.block, 0, 1, self.payloads)
        render(len)

        def flush() -> None:
            render(len)
            text.flush(lambda _: call())

        return flush, [partial(render, len), partial(text.flush, len), text.restart]

    def rows(self, call: Call) -> tuple[Call, list[Call]]:
        text = NATIVE.RowText([RowColumn(ROW_INT64, b"")], True)
        render = partial(text.render, 5, [(0, None, bytes(40))])
        return partial(render, lambda _: call()), [partial(render, len)]

    @staticmethod
    def _calling(call: Call, use: Call) -> Call:
        def used() -> object:
            Calling.calls = once
            try:
                return use()
            finally:
                Calling.calls = None

        def once() -> None:
            Calling.calls = None
            call()

        return used


KINDS = pytest.mark.parametrize("kind", [Log.columns, Log.offsets, Log.verdicts, Log.text, Log.held_text, Log.rows])
Kind = Callable[[Log, Call], tuple[Call, list[Call]]]


@KINDS
def test_a_second_call_is_refused_until_the_first_is_done(kind: Kind) -> None:
    refused: list[Call] = []

    def refuse() -> None:
        for other in others:
            for ask in (other, lambda other=other: threads.submit(other).result()):
                with pytest.raises(RuntimeError, match=TWO_AT_ONCE):
                    ask()
                refused.append(other)

    use, others = kind(Log(), refuse)
    with ThreadPoolExecutor(1) as threads:
        use()
        assert refused == [other for other in others for _ in range(2)]
        for other in others:
            other()


@KINDS
def test_a_call_that_fails_keeps_no_other_out(kind: Kind) -> None:
    def fail() -> None:
        raise OSError("full")

    use, others = kind(Log(), fail)
    with pytest.raises(OSError, match="full"):
        use()
    for other in others:
        other()


@KINDS
def test_two_threads_at_once_work_or_are_refused(kind: Kind) -> None:
    log = Log(MANY)
    use, others = kind(log, lambda: None)

    def hammer(calls: list[Call]) -> int:
        done = 0
        for at in range(ROUNDS):
            try:
                calls[at % len(calls)]()
            except RuntimeError as error:
                if TWO_AT_ONCE not in str(error):
                    raise
            else:
                done += 1
        return done

    with ThreadPoolExecutor(3) as threads:
        assert any(threads.map(hammer, [others, others[::-1], others]))
    use()


def large() -> Log:
    """A compressed log whose payload is memory that goes back to the system at once."""
    return Log(MANY, 4000, GZIP)


def test_columns_keep_the_payloads_that_they_read() -> None:
    log = large()
    use, (take, _) = log.columns(log.payloads.clear)
    use()
    taken: Any = take()
    *_, values = taken[3]
    assert (log.payloads, bytes(values)) == ([], bytes(4000 * MANY))


def test_a_renderer_keeps_the_payloads_that_it_reads() -> None:
    log, written = large(), bytearray()
    whole = bytearray()
    text = NATIVE.LogText(True, True, False, lambda number, value: b"")
    text.render(log.block, 0, 1, log.payloads, whole.extend)

    def write(piece: memoryview) -> None:
        log.payloads.clear()
        written.extend(piece)

    text.restart()
    text.render(log.block, 0, 1, log.payloads, write)
    assert (log.payloads, written) == ([], whole)


def test_a_payload_for_each_row_is_needed() -> None:
    log = Log()
    keys, text = NATIVE.OffsetMap(240, 5), NATIVE.LogText(True, True, False, lambda number, value: b"")
    log.records.seek(0)
    with pytest.raises(IndexError, match="fewer payloads than rows"):
        NATIVE.decode(log.block, log.records, 0, 1, [])
    with pytest.raises(IndexError, match="fewer payloads than rows"):
        text.render(log.block, 0, 1, [], len)
    with pytest.raises(ValueError, match="of another batch"):
        keys.take(log.block, log.records, 0, [], b"\1", 0)
