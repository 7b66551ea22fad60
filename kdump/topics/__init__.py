"""What Kafka's internal topics and transactions add up to: groups, transactional ids, the cluster's metadata.

`reading` gives the records of a partition past its damage, `replicas` the partitions of the paths at hand with their
checkpoints; `groups`, `transaction_ids`, `transactions` and `cluster_image` each answer one command's question with
plain data.
"""
