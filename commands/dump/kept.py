"""What `kdump dump --kept` says of a piece."""

from __future__ import annotations

from kdump.change.kept import KeptPiece
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import offset_range


def kept_words(piece: KeptPiece) -> str:
    """Return where a piece was, and which change keeps it."""
    where = f"bytes {offset_range(piece.start, piece.stop - 1)} of {safe_path(piece.file)}"
    return f"{where}, taken out by {safe(piece.command)} ({piece.id})"
