"""Writes the table of findings in docs/verify.md from the catalogue, so that the two never disagree.

    python docs/findings.py [--check]

`--check` writes nothing and fails where the table is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kdump.findings.catalogue import CATALOGUE

PAGE = Path(__file__).with_name("verify.md")
BEGIN = "<!-- The table is generated: python docs/findings.py -->\n"
END = "<!-- End of the table. -->\n"


def table() -> str:
    """A Markdown table with a line for each code."""
    lines = ["| code | severity | what it means | a broker | repair |", "|---|---|---|---|---|"]
    for kind in CATALOGUE.values():
        cells = f"`{kind.code}`", kind.severity, kind.meaning, kind.broker, kind.repair
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """The page with its table as it should be. Raises ValueError where the page has no place for it."""
    start = page.index(BEGIN) + len(BEGIN)
    return page[:start] + table() + page[page.index(END, start) :]


def main(arguments: Sequence[str]) -> int:
    """Write the page, or say whether it is current."""
    page = PAGE.read_text(encoding="utf-8")
    current = with_table(page)
    if "--check" in arguments:
        if page != current:
            print(f"{PAGE} is not current: run python docs/findings.py", file=sys.stderr)
        return int(page != current)
    PAGE.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
