"""Bytes to values and back: every format of a log directory, without files."""
