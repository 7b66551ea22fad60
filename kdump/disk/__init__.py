"""The only reader, writer and locker of files."""
