"""Kafka's read buffer, without a buffer: where the chunks end in which the cleaner reads a segment."""

from __future__ import annotations

from kdump.settings.cleaning import CleaningSettings


class ReadBuffer:
    """Into which chunk each batch falls. What the cleaner writes of one chunk is one append, with one index entry.

    The buffer grows while it does not hold a batch. `limit` is the byte of the segment up to which the chunk reaches.
    """

    def __init__(self, config: CleaningSettings) -> None:
        self._full_size = self.size = config.buffer_bytes
        self._max_message_bytes = config.max_message_bytes
        self._broker_message_bytes = config.broker_message_bytes
        self.limit: int  # which start() sets

    def start(self, position: int) -> None:
        """Begin a chunk at byte `position` of a segment."""
        self.limit = position + self.size

    def begins(self, position: int, size: int) -> bool:
        """Return whether a batch is the first of another chunk, which is begun then."""
        if position + size <= self.limit:
            return False
        while self.size < size:
            wanted = self._max_message_bytes if self.size < self._max_message_bytes else size
            self.size = min(2 * self.size, max(self._broker_message_bytes, wanted))
        self.start(position)
        return True

    def restore(self) -> None:
        """Shrink to the size that the buffer had before it grew; a segment ends."""
        self.size = self._full_size
