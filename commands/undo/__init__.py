"""`kdump undo`."""
