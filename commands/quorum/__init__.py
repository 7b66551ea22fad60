"""`kdump quorum`."""
