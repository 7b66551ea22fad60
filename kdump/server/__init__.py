"""Kafka's protocol, read-only, over log directories: any client reads what a broker left, and no broker is needed."""
