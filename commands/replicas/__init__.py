"""`kdump replicas`."""
