"""The .txnindex of a segment: every transaction aborted in the segment, and nothing else, has an entry."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.check.entries import found_in_entry
from kdump.check.gaps import Gaps
from kdump.check.producers import AbortedHere, ProducerCheck
from kdump.findings.finding import Finding, found
from kdump.findings.kind import NOTE, REBUILDS
from kdump.formats import names
from kdump.formats.index_entries import ABORTED_TXN_SIZE, AbortedTxn
from kdump.storage.segment import Segment


def check_txn_index(
    segment: Segment, producers: ProducerCheck, *, knows_log: bool, has_lost: bool, is_open: bool, is_int16: bool
) -> Iterator[Finding]:
    """Hold the index against the segment's aborted transactions and ABORT markers.

    Of a segment that `is_open`, neither rolled nor closed, the last entries may not be written yet: a broker writes
    them after the markers (UnifiedLog.append), and its next start rebuilds the file.

    A transaction whose first batches were cleaned away began in one of the gaps. Unless the segment is known as a
    whole (`knows_log`), entries without a marker are not objected to; where something of the log so far `has_lost`,
    neither are offsets from before what is there. `is_int16`: the broker refuses every version but 0. Raises OSError.
    """
    path = segment.path(names.TXN_INDEX)
    missing = dict(producers.aborted)
    last_entry = -1
    if segment.has(names.TXN_INDEX):
        for number, txn, finding in _entries(segment, path, is_int16):
            if finding:
                yield finding
            if txn is None:
                continue
            if producers.abort_markers.get(txn.last_offset) != txn.producer_id:
                if knows_log:
                    text = f"entry {number} names a marker of producer {txn.producer_id} at offset {txn.last_offset}"
                    yield _of_entry("KD-TXN-ORPHAN", path, f"{text}: there is none", number, txn, txn.last_offset)
                continue
            last_entry = txn.last_offset
            known = missing.pop(txn.last_offset, None)
            if known and (text := _fault(txn, known, None if has_lost else producers.gaps)):
                yield _of_entry("KD-TXN-ENTRY", path, f"entry {number} {text}", number, txn, txn.first_offset)
    for offset, here in missing.items():
        text = f"the transaction of producer {here.producer_id} from offset {here.first_offset} on, aborted at offset"
        is_due = not is_open or offset < last_entry
        text += f" {offset} (byte {here.position} of the log), has no entry{'' if is_due else ' yet'}"
        finding = found("KD-TXN-MISSING", path, text, offset=offset, details={"producerId": here.producer_id})
        if not is_due:
            finding = finding._replace(severity=NOTE, effect=REBUILDS)
        yield finding._replace(offsets=(here.first_offset, offset))


def _of_entry(code: str, path: str, message: str, number: int, txn: AbortedTxn, offset: int) -> Finding:
    finding = found_in_entry(code, path, message, number, offset, ABORTED_TXN_SIZE)
    details = {"entry": number, "producerId": txn.producer_id}
    return finding._replace(offsets=(txn.first_offset, txn.last_offset), details=details)


def _fault(txn: AbortedTxn, known: AbortedHere, gaps: Gaps | None) -> str:
    """Return how an entry contradicts the log; empty where it does not. Without `gaps`, anything may be lacking."""
    if not _may_be(txn.first_offset, known.first_offset, gaps):
        return f"begins at offset {txn.first_offset}, its transaction at {known.first_offset}"
    stable, copied = txn.last_stable_offset, known.copied_offset
    if copied is not None and txn.last_offset < stable and _may_be(stable, copied, gaps):
        return ""
    if gaps is not None and not _may_be(stable, known.stable_offset, gaps):
        return f"has the last stable offset {stable}, by the log it was {known.stable_offset}"
    return ""


def _may_be(offset: int, known: int, gaps: Gaps | None) -> bool:
    """Return whether a transaction's beginning may be at `offset`, which by what is left of the log is at `known`."""
    return offset == known or (offset < known and (gaps is None or gaps.has(offset)))


def _entries(segment: Segment, path: str, is_int16: bool) -> Iterator[tuple[int, AbortedTxn | None, Finding | None]]:
    """Yield number and content of every entry, its content None where it is not one; and what is wrong with it."""
    before = -1
    with segment.txn_index() as index:
        if left := index.size % ABORTED_TXN_SIZE:
            text = f"{left} bytes are left after the last entry"
            yield 0, None, found("KD-TXN-LENGTH", path, text, index.size - left, length=left)
        for number, txn in enumerate(index):
            if txn.version != 0:
                code = "KD-TXN-VERSION" if is_int16 or txn.version_seen > 0 else "KD-TXN-ENTRY"
                text = f"entry {number} has version {txn.version}"
                yield number, None, _of_entry(code, path, text, number, txn, txn.last_offset)
            elif 0 <= txn.first_offset <= txn.last_offset < segment.base_offset:
                text = f"entry {number} ends at offset {txn.last_offset}, the segment begins at {segment.base_offset}"
                yield number, None, _of_entry("KD-TXN-BASE", path, text, number, txn, txn.last_offset)
            elif txn.last_offset <= before or not 0 <= txn.first_offset <= txn.last_offset:
                text = f"entry {number} is out of order: {txn}"
                yield number, None, _of_entry("KD-TXN-ENTRY", path, text, number, txn, txn.last_offset)
            else:
                before = txn.last_offset
                yield number, txn, None
