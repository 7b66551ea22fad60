"""What Kafka's own dump tool (DumpLogSegments) prints of segments, indexes and snapshots, byte for byte.

It ends where that ends, with the same exception. `run` prints file by file: `indexes` what lies beside a log,
`contents` keys and values by decoder. `java` and `payload_errors` give the exceptions of the JVM, `report` what is told
last.
"""
