"""kdump repair, rebuild-index and trim."""
