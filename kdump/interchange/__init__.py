"""Records as text and back, strictly.

The format `kdump-records/1` as JSON lines and CSV, and plain lines:

    fields    the table of the fields of records and batches
    rows      what is dumped: keys and values, tables of other files
    reading   records and batches out of the fields that describe them
    jsonl     an object a line: what `kdump dump` and `kdump export` write and `kdump append` reads
    csv       the same as rows
    lines     plain lines, a record each
"""
