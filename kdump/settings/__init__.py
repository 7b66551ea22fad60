"""Kafka's settings, each view of them as a plain dataclass."""
