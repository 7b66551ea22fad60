"""Clusters from disks: what copies of partitions and of metadata there are, and the cluster that they can become."""
