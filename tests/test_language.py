"""kdump says what people who run Kafka say: no private words, no losing advice first, lines that fit a terminal."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kdump.commands.cli import COMMANDS, cli
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.explanations import EXPLANATIONS
from kdump.findings.kafka_messages import MESSAGES
from kdump.findings.kind import NOTHING

HERE = Path(__file__).parent
SESSIONS = HERE / "transcripts" / "sessions"
DOCS = HERE.parent / "docs"

# What not to say, and what to say instead.
DO_NOT_SAY = {
    r"\b(?:made|written|comes|starts|begins|done|read) anew\b|\banew\b": "rebuilt, written again",
    r"\bclosed in order\b": "clean shutdown",
    r"\bon paper\b": "in the plan",
    r"\bforetell": "predicts, shows",
    r"\breckon": "compute, use",
    r"\bCRC\b[^.;|]* does not hold\b": "fails its CRC",
    r"\bheld against\b": "compared with",
    r"\blies? beyond\b": "is above",
    r"\bis no multiple\b": "is not a multiple",
    r"\bbetween its neighbours\b": "out of order",
    r"\bis cut off\b|\bare left of it\b": "the log ends inside batch N",
    r"\btorn (?:tail|batch)": "incomplete batch",
    r"\bpassed over\b": "skipped",
    r"\bgood batch": "valid batch",
    r"\bsafety rail": "safety check",
    r"\bcarr(?:y|ied|ies) (?:\w+ ){0,2}out\b": "apply, applied",
    r"\bunless you say otherwise\b": "(default: ...)",
    r"(?<!timestamp)\(s\)(?=[ .,]|$)": "plural by count",
    r"\b1 later segments\b|\b1 (?:files|records|batches|partitions|segments|bytes|errors|warnings|notes)\b": "singular",
    r"\bserves wrong data silently\b": "which requests are wrong",
    r"\brefuses to start / takes\b": "one of the two",
    r"\bits last record is \d+ s old\b": "open for 2 d 1 h",
    r"\bput right\b|\bput back\b": "restored",
    r"\bnot sound\b|^sound: ": "OK, FOUND",
    r"\bis gone on with\b|\bgoes on at byte\b": "continues, is resumed",
    r"\bheld by the (?:transaction|high watermark)\b|\bholds back what\b": "blocked by, blocks",
    r"\bhalf up to\b": "median",
    r"^ *with another  |\bnone with an id\b": "if recompressed, no producer ids",
    r"\bTAKEN FROM\b|\bA BATCH\b": "SOURCE, BYTES/BATCH",
    r"\bdamage {8,}\d+ places?\b": "N damaged ranges",
    r"\bwithout a (?:whole|complete) batch\b": "cuts an incomplete batch",
    r"\bthere is no change (?!')|\bis not there\b": "does not exist",
    r"\bis no (?:size|fault|severity|regular expression|time span|length of time)\b": "is not a",
    r"\b(?:segment|transaction) is held\b": "keeps, blocks",
    r"^(?!.*Unable).*\bno complete batch\b": "not a complete batch",
    r"\bmarkers of none\b|\bended nothing$": "markers without an open transaction",
}  # fmt: skip
WORDS = {re.compile(pattern, re.MULTILINE): instead for pattern, instead in DO_NOT_SAY.items()}


def unsaid(text: str, place: str) -> Iterator[str]:
    """What of a text is not to be said, with the line that has it."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in WORDS.items():
            if found := pattern.search(line):
                yield f"{place}:{number}: {found[0]!r}; say: {instead}"


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command with its context, those of groups too."""
    root = click.Context(cli, info_name="kdump", **cli.context_settings)
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        context = click.Context(command, parent=root, info_name=name, **command.context_settings)
        yield name, command, context
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                assert found is not None
                yield f"{name} {inner}", found, click.Context(found, parent=context, info_name=inner)


@pytest.mark.parametrize("path", sorted(SESSIONS.glob("*.txt")), ids=lambda path: path.stem)
def test_what_commands_print(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    rows = re.compile(r'^\{"|^\{ ?$')  # in JSON texts of the broker's effect are fixed words that scripts match
    lines = ("" if rows.match(line) else line for line in text.splitlines())
    assert list(unsaid("\n".join(lines), path.name)) == []


def test_help_texts() -> None:
    found = [each for name, command, context in commands() for each in unsaid(command.get_help(context), name)]
    assert found == []


def test_the_catalogue() -> None:
    found: list[str] = []
    for code, kind in CATALOGUE.items():
        known = EXPLANATIONS[code]
        texts = (kind.meaning, known.title, known.broker, known.consumers, known.causes)
        found += unsaid("\n".join((*texts, *(remedy.note for remedy in kind.remedies))), code)
    for message in MESSAGES:
        found += unsaid("\n".join((message.means, *message.do)), message.template[:40])
    assert found == []


# What is another's: Kafka's own messages, and fixed words that scripts compare with.
QUOTED = {
    "kdump/findings/kind.py": ("serves wrong data silently",),
    "kdump/formats/control.py": ("byte(s)",),
    "kdump/formats/schemas/consumer_offsets.py": ("byte(s)",),
    "kdump/formats/schemas/dump_text.py": ("byte(s)",),
    "kdump/formats/schemas/framing.py": ("byte(s)",),
    "kdump/formats/schemas/reader.py": ("byte(s)", "(s)"),
}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that are no docstrings, with their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    statements = (each.value for each in ast.walk(tree) if isinstance(each, ast.Expr))
    docstrings = {id(value) for value in statements if isinstance(value, ast.Constant)}
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in docstrings:
            yield each.lineno, each.value


@pytest.mark.parametrize("package", ["kdump", "commands"])
def test_the_texts_of_the_code(package: str) -> None:
    found: list[str] = []
    for path in sorted((DOCS.parent / package).rglob("*.py")):
        name = path.relative_to(DOCS.parent).as_posix()
        for line, text in literals(path):
            for quoted in QUOTED.get(name, ()):
                text = text.replace(quoted, "")
            found += unsaid(text, f"{name}:{line}")
    assert found == []


PAGES = sorted([DOCS.parent / "README.md", *DOCS.glob("*.md")])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_documentation(path: Path) -> None:
    assert list(unsaid(path.read_text(encoding="utf-8"), path.name)) == []


def test_every_finding_says_what_to_do_and_what_that_loses() -> None:
    for kind in CATALOGUE.values():
        for number, remedy in enumerate(kind.remedies):
            assert remedy.loses
            said = f"{' '.join(remedy.arguments)} {remedy.note}"
            is_losing = remedy.loses != NOTHING
            assert not (number == 0 and is_losing), f"{kind.code} begins with what loses {remedy.loses}"
            if not is_losing and number == 0:
                assert not re.search(r"--strategy|\brm\b|\bdelete the (?:file|directory|partition)\b", said), kind.code


ADVISING = re.compile(r"--strategy (?:truncate|salvage)|--accept-loss|\brm -|\bdelete the (?:file|directory)")
LOSSLESS = re.compile(r"[Ll]oses nothing|loses nothing|--fix-bit|--from|in-sync replica|other copy")


@pytest.mark.parametrize("name", ["doctor", "explain", "verify", "repair"])
def test_what_loses_data_is_never_advised_first(name: str) -> None:
    text = (SESSIONS / f"{name}.txt").read_text(encoding="utf-8")
    for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = block.partition("\n")
        if "--format" in command or "--strategy" in command or "--help" in command:
            continue
        advised = ADVISING.search(printed)
        if advised is not None:
            assert LOSSLESS.search(printed[: advised.start()]), f"$ {command}"


def test_help_fits_a_terminal() -> None:
    for name, command, context in commands():
        context.terminal_width = context.max_content_width = 80
        long = [line for line in command.get_help(context).splitlines() if len(line) > 80]
        assert long == [], name


# Screens for people at a terminal of 80 columns.
@pytest.mark.parametrize("name", ["doctor", "explain"])
def test_lines_fit_a_terminal(name: str) -> None:
    text = (SESSIONS / f"{name}.txt").read_text(encoding="utf-8")
    for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = block.partition("\n")
        if not command.startswith("COLUMNS=80 "):
            continue
        long = [line for line in printed.splitlines() if len(line) > 80 and not line.startswith("2> ")]
        assert long == [], f"$ {command}"


# Words of the glossary's right column that names are not made of. What scripts read keeps its name, and so do faults
# of fixtures, which have the names of their functions.
PRIVATE = re.compile(
    r"alike|anew|broken|infos|mend(?:s|ed|ing)?|passedover|rails?|rescued?|retell|retold|sheets?|sister|strange"
    r"|stretch(?:es)?|tell(?:s|ing)?|told|troubles?|whither|wish(?:es)?"
)
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
FAULTS = {"broken_records", "broken_metadata_snapshot"}  # whose names are those of their functions


def defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What a module gives names to: functions, classes, parameters, variables and fields."""
    for each in ast.walk(tree):
        match each:
            case ast.FunctionDef(decorator_list=[ast.Call(func=ast.Name(id="fault"))]):
                continue
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield each.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield each.lineno, name


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The docstrings of a module."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(each)):
            yield getattr(each, "lineno", 1), text


SAID_OF_CODE = re.compile(
    r"\bgood batch|\bpassed over\b|\bon paper\b|\bclosed in order\b|\bheld against\b|\banew\b|\bhole in the offsets\b"
    r"|\bgo(?:es|ne)? on (?:with|at)\b|\bis no multiple\b|\bput (?:back what|right)\b"
)


@pytest.mark.parametrize("package", ["kdump", "commands"])
def test_names_and_docstrings_have_no_private_words(package: str) -> None:
    found: list[str] = []
    for path in sorted((DOCS.parent / package).rglob("*.py")):
        name = path.relative_to(DOCS.parent).as_posix()
        words = {part.lower() for part in path.stem.split("_")}
        found += [f"{name}: {word}" for word in words if PRIVATE.fullmatch(word)]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for line, defined in defined_names(tree):
            if defined not in FAULTS and any(PRIVATE.fullmatch(word.lower()) for word in WORD.findall(defined)):
                found.append(f"{name}:{line}: {defined}")
        for line, text in docstrings(tree):
            found += [f"{name}:{line}: {said[0]}" for said in SAID_OF_CODE.finditer(" ".join(text.split()))]
    for path in sorted((DOCS.parent / package).rglob("*.p[xy][dix]")):
        said = SAID_OF_CODE.finditer(" ".join(path.read_text(encoding="utf-8").split()))
        found += [f"{path.name}: {each[0]}" for each in said]
    assert found == []
