"""Kafka's protocol: the layouts of requests and responses, and their frames."""
