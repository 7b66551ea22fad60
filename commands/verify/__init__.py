"""kdump verify."""
