"""How records of internal topics wrap their messages.

    coordinator topics    key    int16 record type, then the key's message (not flexible)
                          value  int16 version, then the value's message; a null value is a tombstone
    metadata topics       key    null
                          value  unsigned varint frame version (1), record type (apiKey) and record version, then the
                                 message, and nothing after it

Coordinator topics are __consumer_offsets, __transaction_state and __share_group_state, metadata topics are
__cluster_metadata (with its checkpoint files) and __remote_log_metadata.
"""

from __future__ import annotations

from kdump.formats.internal_topics.description import PACKERS, Field, Schema, SchemaError
from kdump.formats.internal_topics.schema import BUFFER_UNDERFLOW, decode, encode, read_unsigned_varint, to_json
from kdump.formats.internal_topics.schema import write_unsigned_varint as write_varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
