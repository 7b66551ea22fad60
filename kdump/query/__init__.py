"""Questions to a log; each answer is data."""
