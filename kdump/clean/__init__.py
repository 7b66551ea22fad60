"""What Kafka's log cleaner does: which part of a partition it may compact, and what the result is, byte by byte."""
