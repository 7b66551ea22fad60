"""`kdump resurrect`."""
