"""Work on a large log with several processes, each in regions of its own, and have the results in the log's order.

A process reads a region into a buffer of its own and does all there is to do with it: the data stays in the cache of
the processor that it came to, and nobody waits for another one's interpreter. Processes only do what is ordinary.
`walk_regions` tells how far that led; LogFile.blocks, which knows all that a log may have, goes on from there.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
from collections.abc import Iterator, Sequence
from errno import ECHILD
from itertools import chain
from struct import Struct
from typing import NoReturn, Protocol

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.formats.batch import FRAME_SIZE
from kdump.storage.log_reader import LogFile

REGION_SIZE = 1 << 20
"""As large as batches usually may be."""
MAX_HELD = 4 << 20
"""Bytes of results beyond which a process waits for its turn to give them."""
PATIENCE = 1.0
"""Seconds that a process has to finish what it is giving when the walk is broken off."""
NO_STATE = -1
"""What the first results follow."""
NOTHING: tuple[int, int, list[bytes]] = (0, NO_STATE, [])

_REPORT_PIECE = 1 << 16


Report = tuple[tuple[int, int] | None, tuple[int, str] | None, list[tuple[int, bytes]]]
"""What a process tells: position and state at the walk's end if that was its, the error of `give`, numbered remarks."""


class Work(Protocol):
    """What one process does with its regions."""

    @property
    def held(self) -> int:
        """Bytes of results that are still to be given."""

    def steps(self, block: BatchBlock) -> Iterator[int]:
        """Work on the whole entries of a block step by step: the byte up to which each step led.

        Where the last one is not the end of the last entry, or something is raised, the walk ends before that step.
        """

    def give(self, state: int) -> tuple[int, bytes]:
        """Give the results that are held, now that it is their turn, and start again. Raises OSError.

        `state` is what the results before left. What these leave is returned, and a remark on them for whoever has
        the log walked (empty: none).
        """

    def forget(self) -> None:
        """Forget the results that are held, and start again."""


def walk_regions(
    log: LogFile, stop: int, works: Sequence[Work], size: int = REGION_SIZE
) -> tuple[int, int, list[bytes]]:
    """Let each of `works` be done by a process of its own, on the entries before byte `stop`.

    Returned are the byte up to which results were given, the state that they left, and the remarks on them in order.
    The walk ends before anything that is not passed by its size alone, and may before an entry of more than `size`
    bytes. Raises the OSError of `give`, and ChildProcessError where a process did not come to its end.
    """
    family = _Family(len(works))
    try:
        for work in works:
            if not family.fork(_Walker(log, stop, size, work)):
                return NOTHING
        return family.result()
    finally:
        family.end()


class _ClosedError(Exception):
    """There will be no turn."""


class _Turns:
    """A pipe to each process, through which the one before it hands on a number, or that there is nothing more."""

    _MESSAGE = Struct("<?q")

    def __init__(self, count: int) -> None:
        self._pipes = [os.pipe() for _ in range(count)]

    def take_seat(self, index: int) -> None:
        """Be process `index` from now on: only `wait` and `hand_on` can be used."""
        self._source, self._target = self._pipes[index][0], self._pipes[(index + 1) % len(self._pipes)][1]
        for end in chain.from_iterable(self._pipes):
            if end not in (self._source, self._target):
                os.close(end)

    def wait(self) -> int:
        """Return the number from the process before this one. Raises _ClosedError."""
        message = os.read(self._source, self._MESSAGE.size)
        has_number, number = self._MESSAGE.unpack(message) if message else (False, 0)
        if not has_number:
            raise _ClosedError
        return int(number)

    def hand_on(self, number: int | None) -> None:
        """Give the next process its turn; None: there is nothing more."""
        self._put(self._target, number)

    def begin(self, number: int) -> None:
        """Give the first process its turn."""
        self._put(self._pipes[0][1], number)

    def end(self) -> None:
        """Tell every process that there is nothing more."""
        for _, target in self._pipes:
            self._put(target, None)

    def close(self) -> None:
        """Close all pipes."""
        for end in chain.from_iterable(self._pipes):
            os.close(end)

    def _put(self, target: int, number: int | None) -> None:
        os.write(target, self._MESSAGE.pack(number is not None, number or 0))


class _Walker:
    """What one process does: every `count`-th region, until there is nothing more."""

    def __init__(self, log: LogFile, stop: int, size: int, work: Work) -> None:
        self._log = log
        self._stop = stop
        self._size = size
        self._work = work
        self._parent = os.getpid()
        self._number = 0
        self._given = 0  # the byte up to which results were given
        self._state: int | None = None  # what the last results left; None until it is this region's turn
        self._at_end: tuple[int, int] | None = None
        self._error: tuple[int, str] | None = None
        self._remarks: list[tuple[int, bytes]] = []

    def run(self, index: int, count: int, starts: _Turns, states: _Turns) -> Report:
        """Be process `index` of `count`."""
        self._starts = starts
        self._states = states
        self._block = BatchBlock()
        self._block.data = bytearray(2 * self._size)
        self._number = index
        try:
            while self._region():
                self._number += count
        except _ClosedError:
            starts.hand_on(None)
            states.hand_on(None)
        return self._at_end, self._error, self._remarks

    def _region(self) -> bool:
        """Do the entries that begin in the next region; whether there are more. Raises _ClosedError."""
        first = self._block.data_position = self._number * self._size
        self._block.available = 0
        self._read(self._size + FRAME_SIZE)
        start = self._given = self._starts.wait()
        if os.getppid() != self._parent:
            raise _ClosedError
        end = self._end(start)
        is_last = end < first + self._size
        self._starts.hand_on(None if is_last else end)
        self._state = None
        if self._read(end - first) and self._work_on(start, end):
            self._give(end)
        else:
            self._work.forget()
            is_last = True
        state = self._turn()
        self._states.hand_on(None if is_last else state)
        if is_last:
            self._at_end = self._given, state
        return not is_last

    def _read(self, size: int) -> bool:
        """Have the first `size` bytes of the region, or all there are; whether there are as many."""
        block = self._block
        missing = min(size, self._log.size - block.data_position) - block.available
        if missing > 0:
            piece = memoryview(block.data)[block.available : block.available + missing]
            try:
                block.available += self._log.read_into(piece, block.data_position + block.available)
            except OSError:  # whoever goes on from here meets it again
                return False
        return block.available >= size

    def _end(self, start: int) -> int:
        """Return the end of the last ordinary entry in the unbroken row from byte `start`, begun in the region."""
        block, first = self._block, self._block.data_position
        stop = min(self._size, block.available - FRAME_SIZE)
        return first + kernels.skip_entries(block.data, start - first, stop, min(self._stop - first, len(block.data)))

    def _work_on(self, start: int, end: int) -> bool:
        """Have the entries from byte `start` to byte `end` worked on; whether that led to the end."""
        block, position = self._block, start
        while position < end:
            kernels.walk(block, position, end, end)
            steps = self._work.steps(block)
            while (reached := self._step(steps)) is not None:
                position = reached
                if self._work.held > MAX_HELD:
                    self._give(position)
            if position < block.next_position:
                return False
        return True

    @staticmethod
    def _step(steps: Iterator[int]) -> int | None:
        """Return the byte up to which the next step led; None: there is none."""
        try:
            return next(steps, None)
        except Exception:  # whoever goes on from here meets it again
            return None

    def _turn(self) -> int:
        """Return the state that the results before left, once it is this region's turn. Raises _ClosedError."""
        if self._state is None:
            self._state = self._states.wait()
        return self._state

    def _give(self, position: int) -> None:
        """Give the results up to byte `position`. Raises _ClosedError."""
        state = self._turn()
        try:
            self._state, remark = self._work.give(state)
        except OSError as error:
            self._error = error.errno or 0, error.strerror or str(error)
            raise _ClosedError from None
        if remark:
            self._remarks.append((self._number, remark))
        self._given = position


class _Child:
    """A process, seen by the one that started it."""

    def __init__(self, pid: int, source: int) -> None:
        self.source = source
        self._pid = pid
        self._received = bytearray()
        self._is_done = False

    def receive(self) -> bool:
        """Read more of its report; whether that was all."""
        piece = os.read(self.source, _REPORT_PIECE)
        self._received += piece
        self._is_done = not piece
        return self._is_done

    def report(self) -> Report:
        """Return what it reported. Raises ChildProcessError."""
        try:
            report: Report = marshal.loads(self._received)
        except (EOFError, ValueError, TypeError):
            raise ChildProcessError(ECHILD, "One of the processes that read the log was ended") from None
        return report

    def end(self) -> None:
        """Wait until it has come to its end, or make it."""
        poll = select.poll()
        poll.register(self.source, select.POLLIN)
        while not self._is_done and poll.poll(PATIENCE * 1000):
            self.receive()
        if not self._is_done:
            os.kill(self._pid, signal.SIGKILL)
        os.close(self.source)
        os.waitpid(self._pid, 0)


class _Family:
    """The processes. They take turns at finding where the entries of their regions begin, and at giving results."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._starts = _Turns(count)
        self._states = _Turns(count)
        self._children: list[_Child] = []

    def fork(self, walker: _Walker) -> bool:
        """Start one more process; whether that was possible."""
        source, target = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # which only the parent is to handle
        try:
            pid = os.fork()
            if pid == 0:
                self._be_child(walker, target)
        except OSError:
            os.close(source)
            return False
        finally:
            os.close(target)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._children.append(_Child(pid, source))
        return True

    def _be_child(self, walker: _Walker, target: int) -> NoReturn:
        try:
            index = len(self._children)
            self._starts.take_seat(index)
            self._states.take_seat(index)
            report = walker.run(index, self._count, self._starts, self._states)
            with os.fdopen(target, "wb") as out:
                marshal.dump(report, out)
        finally:
            os._exit(0)

    def result(self) -> tuple[int, int, list[bytes]]:
        """Let the walk begin, and wait for its end. Raises OSError."""
        self._states.begin(NO_STATE)  # first, for a start may soon have come around
        self._starts.begin(0)
        under_way = {child.source: child for child in self._children}
        poll = select.poll()
        for source in under_way:
            poll.register(source, select.POLLIN)
        while under_way:
            for source, _ in poll.poll():
                if under_way[source].receive():
                    under_way.pop(source).report()
                    poll.unregister(source)
        reports = [child.report() for child in self._children]
        for _, error, _ in reports:
            if error:
                raise OSError(*error)
        position, state = next(end for end, _, _ in reports if end)
        remarks = sorted(chain.from_iterable(remarks for _, _, remarks in reports), key=lambda remark: remark[0])
        return position, state, [text for _, text in remarks]

    def end(self) -> None:
        """Break the walk off if it still goes on, and wait for the processes."""
        self._starts.end()
        self._states.end()
        for child in self._children:
            child.end()
        self._starts.close()
        self._states.close()
