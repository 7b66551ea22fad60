"""kdump dump."""
