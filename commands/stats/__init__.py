"""kdump stats."""
