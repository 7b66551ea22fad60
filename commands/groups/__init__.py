"""kdump groups."""
