"""kdump schemas."""
