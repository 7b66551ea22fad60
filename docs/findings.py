"""Writes what the documentation says of findings from the catalogue, so that the two never disagree.

    python docs/findings.py [--check]

The table in docs/verify.md, and a page for each code in docs/findings/. `--check` writes nothing and fails where
something is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kdump.findings.catalogue import CATALOGUE
from kdump.findings.explanations import EXPLANATIONS
from kdump.findings.kafka_messages import said_of
from kdump.findings.kind import FindingKind

HERE = Path(__file__).parent
PAGE = HERE / "verify.md"
FOLDER = HERE / "findings"
BEGIN = "<!-- The table is generated: python docs/findings.py -->\n"
END = "<!-- End of the table. -->\n"


def table() -> str:
    """Return a Markdown table with a line for each code."""
    lines = ["| code | severity | what it means | what the broker does |", "|---|---|---|---|"]
    for kind in CATALOGUE.values():
        link = f"[`{kind.code}`](findings/{kind.code}.md)"
        cells = link, kind.severity, kind.meaning, EXPLANATIONS[kind.code].broker
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """Return the page with its table as it should be. Raises ValueError where the page has no place for it."""
    start = page.index(BEGIN) + len(BEGIN)
    return page[:start] + table() + page[page.index(END, start) :]


def page_of(kind: FindingKind) -> str:
    """Return the page of one code."""
    return "\n".join(_lines(kind)) + "\n"


def _lines(kind: FindingKind) -> Iterator[str]:
    known = EXPLANATIONS[kind.code]
    yield f"# {kind.code} ({kind.severity}): {known.title}"
    yield ""
    yield "<!-- Generated: python docs/findings.py -->"
    yield ""
    yield kind.meaning
    fields = {"Broker": known.broker, "Consumers": known.consumers, "Causes": known.causes}
    for label, text in fields.items():
        yield ""
        yield f"**{label}.** {text}"
    messages = said_of(kind.code)
    if messages:
        yield ""
        yield "**Kafka says.**"
        yield ""
        yield "```text"
        yield from messages
        yield "```"
    yield ""
    yield "**Do.**" if kind.remedies else "**Do.** Nothing."
    if kind.remedies:
        yield ""
    for number, remedy in enumerate(kind.remedies, 1):
        command = " ".join(remedy.words("PATH"))
        said = f"`{command}`" + (f" ({remedy.note})" if remedy.note else "") if command else remedy.note
        yield f"{number}. {said[:1].upper()}{said[1:]}. Loses {remedy.loses}."


def wanted() -> dict[Path, str]:
    """Every file with what it should contain."""
    pages = {FOLDER / f"{kind.code}.md": page_of(kind) for kind in CATALOGUE.values()}
    return {PAGE: with_table(PAGE.read_text(encoding="utf-8"))} | pages


def main(arguments: Sequence[str]) -> int:
    """Write the files, or say whether they are current."""
    files = wanted()
    present = {*FOLDER.glob("*.md")}
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    stale += sorted(present - set(files))
    if "--check" in arguments:
        for path in stale:
            print(f"{path} is not current: run python docs/findings.py", file=sys.stderr)
        return int(bool(stale))
    FOLDER.mkdir(exist_ok=True)
    for path in present - set(files):
        path.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
