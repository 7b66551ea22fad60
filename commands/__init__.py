"""The command line of kdump: one module a command, which parses options, calls the core and renders."""
