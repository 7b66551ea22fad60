"""kdump startup."""
