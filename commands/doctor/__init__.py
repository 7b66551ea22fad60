"""kdump doctor."""
