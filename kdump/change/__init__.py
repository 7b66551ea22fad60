"""The one way to change a directory: plan, journal, apply, undo."""
