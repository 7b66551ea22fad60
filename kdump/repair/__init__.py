"""Mend a partition directory: plans of what to change (plan), and the one way to carry them out (apply)."""
