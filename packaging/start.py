"""Where the bundle's program begins: `dump-log` is a link to `kdump`, and the name tells which was called."""

import sys
from pathlib import Path

if Path(sys.argv[0]).name == "dump-log":
    from kdump.commands.dump_log.command import main
else:
    from kdump.commands.cli import main

sys.exit(main())
