"""What Kafka's internal topics and transactions add up to: groups, transactional ids, the cluster's metadata."""
