"""What a broker does with a partition directory when it starts: Kafka's log loading, carried out on paper only."""
