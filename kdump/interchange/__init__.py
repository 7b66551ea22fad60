"""Records as text and back, strictly: the format `kdump-records/1` as JSON lines and CSV, and plain lines.

    fields    the fields of records and batches, and how a value is read
    jsonl     an object a line: what `kdump dump` and `kdump export` write and `kdump append` reads
    csv       the same as rows
    lines     plain lines, a record each
"""
