"""What is on a disk, or will be: logs, indexes, partitions, log directories, checkpoints, brokers."""
