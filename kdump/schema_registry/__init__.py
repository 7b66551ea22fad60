"""Payloads by schema: what the records of a schema registry's topic say, and the values that were written with it.

`registry` and `sources` need nothing; decoding needs `pip install 'kafka-kdump[schemas]'` (fastavro, protobuf).
No registry is asked: the schemas come from the disk.
"""
