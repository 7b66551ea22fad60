"""kdump metadata."""
