"""kdump retain."""
