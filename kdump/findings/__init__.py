"""What can be wrong, whoever finds it."""
