"""kdump compact."""
