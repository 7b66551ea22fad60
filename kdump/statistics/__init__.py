"""Figures about partitions: bytes, batches, codecs, producers, times, gaps; sizes, tombstones and keys of records.

Everything is gathered in one pass over blocks of batches (`batches`); records are only decoded when they are asked for
(`records`). All that is kept is bounded, however long a log is, and figures of several partitions add up (`merge`).
"""
