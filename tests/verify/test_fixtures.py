"""Log directories that Kafka's own code wrote: the sound ones pass, of the damaged ones the damaged file is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.sampling import sampled
from tests.test_read_only import listing
from tests.verify.building import found

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
CASES = {row["case"]: row for row in map(json.loads, (FIXTURES / "cases.jsonl").read_text().splitlines())}
SOUND = [case for case in CASES if not case.startswith(("i-", "z-"))]
DAMAGED = [case for case in CASES if case.startswith("i-")]
CLOCK = 1_700_086_400_000


def findings(case: str, **options: Any) -> list[tuple[str, str, str]]:
    return [
        (finding.severity, finding.code, Path(finding.path).name)
        for finding in found(FIXTURES / "corpus" / case, **{"now": CLOCK, **options})
    ]


@pytest.mark.parametrize("case", SOUND)
def test_a_sound_directory_has_no_errors(case: str) -> None:
    assert [finding for finding in findings(case) if finding[0] == "error"] == []


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_named(case: str) -> None:
    name = Path(CASES[case]["file"]).name
    said = [finding for finding in findings(case) if finding[0] == "error" and finding[2] == name]
    assert said


@pytest.mark.parametrize("case", sampled(CASES, 8))
def test_without_decoding_nothing_else_is_found(case: str) -> None:
    """What only decoded records can tell is missing, or told of the whole batch; nothing new turns up."""
    deep, shallow = findings(case), findings(case, deep=False)
    assert set(shallow) <= set(deep)


@pytest.mark.parametrize(
    ("case", "codes"),
    [
        ("h-prealloc-log", {"KD-LOG-PREALLOCATED", "KD-IDX-PREALLOCATED", "KD-TIDX-PREALLOCATED"}),
        ("z-3-16", {"KD-FILE-DELETED"}),
        ("z-3-93", {"KD-FILE-SWAP"}),
        ("z-3-141", {"KD-FILE-CLEANED"}),
        ("z-3-134", {"KD-IDX-ORPHAN"}),
        ("c-extreme-ts", {"KD-TIME-FUTURE", "KD-TIME-ORDER"}),
        ("f-consumer-offsets-bad", {"KD-VALUE-UNDECODABLE"}),
    ],
)
def test_what_is_there_is_told(case: str, codes: set[str]) -> None:
    assert codes <= {code for _, code, _ in findings(case)}


@pytest.mark.parametrize("case", sampled(CASES, 6))
def test_every_file_can_be_verified_by_itself(case: str) -> None:
    """And what is said is of the file, or of the segment whose .log it is."""
    for path in (FIXTURES / "corpus" / case).rglob("*"):
        if path.is_file():
            for finding in found(path, now=CLOCK):
                assert Path(finding.path).name.startswith(path.name.partition(".")[0])


@pytest.mark.parametrize("deep", [False, True])
def test_nothing_is_written(deep: bool, tmp_path: Path) -> None:
    """Not even where index files are missing, which Kafka's own tool makes."""
    copied = []
    for case in ("s-src-txn", "i-idx-swap-first", "h-empty-active", "z-3-93", "f-cluster-metadata"):
        shutil.copytree(FIXTURES / "corpus" / case, tmp_path / case)
        copied.append(tmp_path / case)
    (next((tmp_path / "s-src-txn").glob("*/*.index"))).unlink()
    before = listing(tmp_path)
    assert found(*copied, deep=deep, jobs=2, now=CLOCK)
    assert listing(tmp_path) == before
