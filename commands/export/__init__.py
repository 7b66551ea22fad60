"""kdump export."""
