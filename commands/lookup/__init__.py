"""kdump lookup."""
