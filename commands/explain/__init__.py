"""kdump explain."""
