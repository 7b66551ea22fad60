"""kdump append and roll."""
