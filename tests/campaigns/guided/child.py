"""The process that libFuzzer runs in, and ends.

python -m tests.campaigns.guided.child MODULE FIGURES SAMPLE ARGUMENT... (of libFuzzer)
"""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

from tests.campaigns.guided.building import loaded
from tests.campaigns.guided.comparing import Comparing


def main() -> None:
    """Run libFuzzer until it ends."""
    module, figures, sample, *arguments = sys.argv[1:]
    guided = loaded(Path(module))
    with Path(figures).open("r+b") as file:
        counted = mmap.mmap(file.fileno(), 0)
    guided.run([argument.encode() for argument in ("guided", *arguments)], counted, Comparing(guided), int(sample))


if __name__ == "__main__":
    main()
