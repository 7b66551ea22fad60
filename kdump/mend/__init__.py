"""Repair a partition directory: plans of what to change, for the one way to apply them (kdump.change)."""
