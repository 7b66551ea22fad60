"""What all commands share: the session, options, paths, tables, words."""
