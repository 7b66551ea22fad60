"""What a column of rows holds: numbers for the kernels that render rows (portable.rows)."""

from __future__ import annotations

ROW_NULLS = 0  # null in each row: no buffers
ROW_INT32 = 1
ROW_INT64 = 2
ROW_BOOL = 3  # one bit each
ROW_TEXT = 4  # UTF-8
ROW_BYTES = 5  # text where they are UTF-8, else base64 under a name of its own
ROW_JSON = 6  # texts that are JSON already
ROW_HEADERS = 7  # lists of pairs of ROW_TEXT and ROW_BYTES
