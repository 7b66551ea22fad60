"""kdump ls."""
