"""Repair a partition directory: plans of what to change (plan), and the one way to apply them."""
