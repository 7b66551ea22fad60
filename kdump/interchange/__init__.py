"""Records as text and back, strictly.

The format `kdump-records/1` as JSON lines and CSV, and plain lines:

    rows      what is dumped: columns of records and batches, other tables
    fields    how the values of records and batches are read
    jsonl     an object a line: what `kdump dump` and `kdump export` write and `kdump append` reads
    csv       the same as rows
    lines     plain lines, a record each
"""
