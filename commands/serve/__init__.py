"""`kdump serve`."""
