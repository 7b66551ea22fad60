"""kdump txns."""
