"""Producers and transactions along a log."""
