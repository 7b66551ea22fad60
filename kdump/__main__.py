"""`python -m kdump`: the command line."""

from __future__ import annotations

from kdump.commands.cli import main

main()
