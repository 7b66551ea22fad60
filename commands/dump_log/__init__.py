"""dump-log: Kafka's kafka-dump-log.sh."""
