"""Texts as cells of CSV."""

from __future__ import annotations

from array import array
from itertools import pairwise

from kdump.formats.checksums import Buffer


def csv_cells(
    data: Buffer, offsets: Buffer, validity: Buffer | None, first: int, count: int
) -> tuple[bytearray, bytearray] | None:
    """Return the texts between `offsets` (64-bit) in `data`, UTF-8, as cells of CSV: their bytes, and their offsets;
    None where each of them is one as it is.

    `count` texts from `first` on. Those of letters and digits are as they are, others in quotes, those whose bit in
    `validity` (as Arrow has it) is not set are empty. Raises ValueError where the offsets fall or lead out of the data.
    """
    ends = memoryview(offsets).cast("B").cast("q")
    data, validity = memoryview(data).cast("B"), None if validity is None else memoryview(validity).cast("B")
    wanted = ends[first : first + count + 1] if first >= 0 and count >= 0 else ends[:0]
    falls = any(end < start for start, end in pairwise(wanted))
    if len(wanted) != count + 1 or wanted[0] < 0 or falls or wanted[-1] > len(data):
        raise ValueError("the offsets are not those of texts in the data")
    if validity is not None and len(validity) * 8 < first + count:
        raise ValueError("the offsets are not those of texts in the data")
    made, places, plain = bytearray(), array("q", [0]), 0
    for row, (start, end) in enumerate(pairwise(wanted), first):
        if validity is None or validity[row >> 3] >> (row & 7) & 1:
            cell = _cell(bytes(data[start:end]))
            plain += len(cell) == end - start
            made += cell
        places.append(len(made))
    return None if plain == count else (made, bytearray(places.tobytes()))


def _cell(text: bytes) -> bytes:
    return text if text.decode().isalnum() else b'"%b"' % text.replace(b'"', b'""')
