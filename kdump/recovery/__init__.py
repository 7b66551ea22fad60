"""What a broker does with a partition directory when it starts: Kafka's log loading, in the plan alone."""
