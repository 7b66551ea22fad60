"""Writes docs/findings.md from the catalogue, so that the two never disagree.

    python docs/findings.py [--check]

`--check` writes nothing and fails if the page is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kdump.findings.catalogue import CATALOGUE
from kdump.findings.explanations import EXPLANATIONS
from kdump.findings.kafka_messages import said_of
from kdump.findings.kind import FindingKind

PAGE = Path(__file__).parent / "findings.md"
HEAD = """\
# Findings

<!-- Generated: python docs/findings.py -->

What does the code of a finding mean, what does the broker do, and how is it repaired? `kdump explain CODE` prints the
same text. `kdump verify` and `kdump doctor` report findings ([verify.md](verify.md), [doctor.md](doctor.md)).

"""


def page() -> str:
    """Return the page: a table of all codes, then a section for each."""
    return HEAD + "\n".join((*_table(), *(line for kind in CATALOGUE.values() for line in _section(kind)))) + "\n"


def _table() -> Iterator[str]:
    yield "| code | severity | in short |"
    yield "|---|---|---|"
    for kind in CATALOGUE.values():
        yield f"| [`{kind.code}`](#{kind.code.lower()}) | {kind.severity} | {EXPLANATIONS[kind.code].title} |"


def _section(kind: FindingKind) -> Iterator[str]:
    explanation = EXPLANATIONS[kind.code]
    yield ""
    yield f"## {kind.code}"
    yield ""
    yield f"**{kind.severity.capitalize()}: {explanation.title}.** {kind.meaning}"
    fields = {"Broker": explanation.broker, "Consumers": explanation.consumers, "Causes": explanation.causes}
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
        text = f"`{command}`" + (f" ({remedy.note})" if remedy.note else "") if command else remedy.note
        yield f"{number}. {text[:1].upper()}{text[1:]}. Loses {remedy.loses}."


def main(arguments: Sequence[str]) -> int:
    """Write the page, or say whether it is current."""
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE} is not current: run python docs/findings.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
