"""kdump help."""
