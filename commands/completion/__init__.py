"""kdump completion."""
