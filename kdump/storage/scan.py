"""Walk a log past its damage: runs of batches that can be trusted, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import CorruptRecordError
from kdump.formats.batch import FRAME_SIZE, HEADER_SIZE, LAST_OFFSET_DELTA_AT, LOG_OVERHEAD, MAGIC_AT
from kdump.formats.faults import BLOCK_FULL, END, NEED_BYTES, PARTIAL, SHORT_HEADER, undersized_error
from kdump.formats.words import byte_words, offset_range
from kdump.storage.damage import BatchHeader, Damage, DamageKind, bad_batch, only_zeros
from kdump.storage.log_reader import BUFFER_SIZE, LogFile

MAX_RELATIVE_OFFSET = (1 << 31) - 1
MAX_LOG_SIZE = (1 << 31) - 1  # positions in a .log are 32-bit numbers
MAX_OFFSET = (1 << 63) - 1
_OFFSET_SIZE = 8
_SIZE_SIZE = LOG_OVERHEAD - _OFFSET_SIZE
FIRST_WINDOW = 1 << 12  # bytes searched at first: mostly the next batch is near


class Run(NamedTuple):
    """Rows `first` to `stop` - 1 of a block: batches whose frames and CRCs hold."""

    block: BatchBlock
    first: int
    stop: int


def scan(
    log: LogFile,
    base_offset: int,
    start: int = 0,
    stop: int | None = None,
    *,
    whole: bool = True,
    gathers: bool = False,
    spare: BatchBlock | None = None,
) -> Iterator[Run | Damage]:
    """Yield the batches of `log` from byte `start` (a batch's first) up to byte `stop`, and the damage between them.

    `base_offset` (absolute) is the segment's; it bounds the offsets that a batch found behind damage may have. The
    block of a run is reused for the next one, and is `spare` where one is given. `whole` and `gathers` as for
    LogFile.blocks.
    """
    walk = _Walk(log, base_offset, log.size if stop is None else min(stop, log.size))
    position = start
    while True:
        part: Run | Damage | None = None
        for block in log.blocks(position, walk.end, whole=whole, gathers=gathers, block=spare):
            part = None
            for part in walk.parts(block):
                yield part
            if isinstance(part, Damage):  # which leads to somewhere else than to the next block
                break
        if not isinstance(part, Damage):
            part = walk.tail(block)
            if part is None:
                return
            yield part
        if part.resumed >= walk.end:
            return
        position = part.resumed


class _Walk:
    """The way through a log: `end` is the byte that it leads to, `_expected` the offset (absolute) that comes next.

    A batch found behind damage has offsets from `_lowest` to `_highest`.
    """

    __slots__ = ("_base_offset", "_expected", "_highest", "_log", "_lowest", "end")

    def __init__(self, log: LogFile, base_offset: int, end: int) -> None:
        self._log = log
        self._base_offset = self._lowest = self._expected = base_offset
        self._highest = min(base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET)
        self.end = end

    def parts(self, block: BatchBlock) -> Iterator[Run | Damage]:
        """Yield what is in a block, up to damage that does not lead to the block's next batch."""
        row = 0
        while row < block.length:
            bad = first_bad(block, row)
            if bad > row:
                yield Run(block, row, bad)
                before = block.last_offset[bad - 2] + 1 if bad - 1 > row else self._expected
                self._expected = block.last_offset[bad - 1] + 1
                self._lowest = self._least_behind(block.base_offset[bad - 1], before)
            if bad == block.length:
                return
            at = block.position[bad]
            resumed = at + block.size[bad] if self._leads_on(block, bad) else self._resync(at + 1)
            yield bad_batch(block, bad, resumed, self._log.path)
            row = bad + 1
            if row < block.length and block.position[row] != resumed:
                return

    def _least_behind(self, first: int, before: int) -> int:
        """Return the least offset of a batch that may be found behind damage; all are absolute.

        The last batch before it begins at `first`, and `before` it another one was expected: no CRC covers a base
        offset, so one that leaves a gap may be too high.
        """
        least = before if first > before else self._expected
        return least if self._base_offset < least <= self._highest else self._base_offset

    def tail(self, block: BatchBlock) -> Damage | None:
        """Return what a walk that ended before the log's end, with this block, met there."""
        log, at, end = self._log, block.next_position, self.end
        if at >= end or block.status in (BLOCK_FULL, NEED_BYTES):
            return None
        resumed = self._resync(at + 1)
        is_last, is_torn = resumed >= end, block.status in (PARTIAL, END)
        header: BatchHeader | None = None
        if not log.read(end - 1, 1):
            kind, text = DamageKind.TORN, "the file became shorter while it was read"
        elif is_last and (is_torn or block.bad_size == 0) and only_zeros(log, at, end):
            kind = DamageKind.ZEROS
            text = f"{byte_words(end - at)} of zeros up to the end (preallocated, or never written)"
        elif is_torn and is_last:
            is_begun = begins_batch(log.read(at, HEADER_SIZE), self._lowest)
            kind = DamageKind.TORN if is_begun else DamageKind.GARBAGE
            text, header = _torn(log, at, end)
        elif is_torn:
            kind, text = DamageKind.SIZE, "the size field of a batch points past the end of the log"
        elif block.status == SHORT_HEADER:
            kind = DamageKind.SIZE
            text = "the size field is too small for a batch, and its header runs over the end of the file"
        else:
            kind, text = DamageKind.SIZE, str(undersized_error(block.bad_size))
        return Damage(kind, at, resumed, CorruptRecordError(text), log.path, header=header)

    def _leads_on(self, block: BatchBlock, row: int) -> bool:
        """Return whether a bad batch's frame can be believed: a valid batch follows whose offsets go on where its end.

        Its content is not searched then, which may hold what looks like a batch (of a topic that carries batches).
        """
        last_offset = block.last_offset[row]
        if not self._lowest <= last_offset < MAX_OFFSET:
            return False
        following = valid_entry(self._log, block.position[row] + block.size[row], self.end)
        return following is not None and following.base_offset[0] == last_offset + 1

    def _resync(self, position: int) -> int:
        """Return the first byte from `position` where a valid entry with a plausible header starts, or the end."""
        end, window = self.end, FIRST_WINDOW
        while position < end:
            data = self._log.read(position, min(window, end - position))
            at = self._find(data, position)
            if at >= 0:
                return position + at
            if len(data) < window or position + len(data) >= end:
                # a v0/v1 message at the very end may be shorter than what is looked at as a header
                start = max(0, len(data) - HEADER_SIZE + 1)
                padded = data[start:] + bytes(HEADER_SIZE)
                at = self._find(padded, position + start)
                return end if at < 0 else position + start + at
            position += len(data) - HEADER_SIZE + 1
            window = min(4 * window, BUFFER_SIZE)
        return end

    def _find(self, data: bytes, position: int) -> int:
        """Return where in `data`, read from byte `position` on, a valid entry starts; -1 without one."""
        if data.count(0) == len(data):
            return -1
        at = -1
        while True:
            at = kernels.find_batch(data, at + 1, len(data), self.end - position, self._lowest, self._highest)
            if at < 0 or valid_entry(self._log, position + at, self.end):
                return at


def first_bad(block: BatchBlock, row: int = 0) -> int:
    """Return the first row from `row` on whose CRC does not hold; the block's length where all do."""
    try:
        return block.valid.index(0, row, block.length)
    except ValueError:
        return block.length


def _torn(log: LogFile, at: int, end: int) -> tuple[str, BatchHeader | None]:
    """Return what is there of a batch that the log ends in, and what its header says."""
    data = log.read(at, min(HEADER_SIZE, end - at))
    if len(data) < LAST_OFFSET_DELTA_AT + 4:
        return f"the log ends inside the header of a batch: {byte_words(end - at)} of it are there", None
    first = int.from_bytes(data[:_OFFSET_SIZE], "big", signed=True)
    size = LOG_OVERHEAD + int.from_bytes(data[_OFFSET_SIZE:LOG_OVERHEAD], "big", signed=True)
    delta = int.from_bytes(data[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4], "big", signed=True)
    if data[MAGIC_AT] > 2 or first < 0:
        return f"the last {byte_words(end - at)} are not a complete batch", None
    is_v2 = data[MAGIC_AT] == 2 and delta >= 0
    header = BatchHeader((first, first + delta) if is_v2 else None, size)
    which = f"batch {offset_range(*header.offsets)}" if header.offsets else "a batch"
    return f"the log ends inside {which}: {end - at} of {size} bytes are there", header


def begins_batch(data: bytes, expected: int) -> bool:
    """Return whether bytes at the end of a log, too few for a batch, can begin one from offset `expected` on."""
    offset = data[:_OFFSET_SIZE]
    unknown = _OFFSET_SIZE - len(offset)
    lowest = int.from_bytes(offset, "big") << 8 * unknown
    highest = lowest + (1 << 8 * unknown) - 1
    if highest < expected or lowest > expected + MAX_RELATIVE_OFFSET:
        return False
    size = data[_OFFSET_SIZE:LOG_OVERHEAD]
    if size and size[0] & 0x80:
        return False
    return len(data) < FRAME_SIZE or data[MAGIC_AT] <= 2


def damaged_batches(log: LogFile, damage: Damage, base_offset: int, limit: int) -> Iterator[BatchBlock]:
    """Yield the batches whose headers can be followed from where damage begins, each as a block's only row, invalid.

    `base_offset` (absolute) is the segment's; of a batch of more than `limit` bytes nothing is read.
    """
    position = damage.position
    while block := _damaged_batch(log, position, damage.resumed, base_offset, limit):
        position += block.size[0]
        if base_offset <= block.last_offset[0] < MAX_OFFSET:
            base_offset = block.last_offset[0] + 1
        yield block


def has_batch(log: LogFile, damage: Damage, base_offset: int) -> bool:
    """Return whether a batch's header stands where the damage begins."""
    head = log.read(damage.position, min(FRAME_SIZE, damage.resumed - damage.position))
    return len(head) == FRAME_SIZE and begins_batch(head, base_offset) and any(head)


def _damaged_batch(log: LogFile, position: int, end: int, base_offset: int, limit: int) -> BatchBlock | None:
    """Return the batch whose header stands at `position`, None where there is none from `base_offset` on.

    One whose size leads past the damage's `end` ends there: it is cut off, or its size is what is wrong.
    """
    head = log.read(position, HEADER_SIZE)
    if len(head) < FRAME_SIZE or not begins_batch(head[:FRAME_SIZE], base_offset):
        return None
    stored = int.from_bytes(head[_OFFSET_SIZE:LOG_OVERHEAD], "big") + LOG_OVERHEAD
    size = min(end - position, stored)
    if not FRAME_SIZE < size <= limit:
        return None
    block = BatchBlock(1)
    data = bytearray(log.read(position, size))
    data[_OFFSET_SIZE:LOG_OVERHEAD] = (len(data) - LOG_OVERHEAD).to_bytes(_SIZE_SIZE, "big")
    block.data, block.data_position, block.available = data, position, len(data)
    kernels.walk(block, position, position + len(data), position + len(data))
    if block.length != 1:
        return None
    block.valid[0] = 0
    return block


def valid_entry(log: LogFile, position: int, end: int) -> BatchBlock | None:
    """Return the whole entry with a valid CRC that starts at `position`, as a block's only row; None if none is."""
    entry = log.entry_at(position, end)
    if entry.status != BLOCK_FULL:
        return None
    if entry.size > BUFFER_SIZE:
        block = next(log.blocks(position, position + entry.size, whole=False))
    else:
        block = log.batch_at(position, entry.size)
    return block if block.length == 1 and block.valid[0] else None
