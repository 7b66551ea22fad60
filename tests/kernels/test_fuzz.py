"""The differential fuzzer with fixed seeds: the kernels agree on damaged input too, and meet every fault there is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kdump.formats import faults
from kdump.kernels.portable import kernels as portable
from tests.kernels.fuzz import Campaign, case_of, report, reproducer
from tests.kernels.observe import Case
from tests.kernels.reading import NATIVE
from tests.kernels.seeds import seeds
from tests.sampling import sampled

SEEDS = 16
MUTANTS = 12_800  # each

met: Counter[int] = Counter()


@pytest.mark.parametrize(("seed", "mutants"), sampled([(SEEDS, 1000), *((seed, MUTANTS) for seed in range(SEEDS))], 1))
def test_mutants(seed: int, mutants: int) -> None:
    campaign = Campaign(seed, NATIVE or portable)  # without the compiled kernels: that no exception escapes
    difference = campaign.run(mutants)
    assert difference is None, report(difference)
    assert campaign.mutants == mutants
    met.update(campaign.met)


@pytest.mark.slow
def test_the_mutants_above_met_every_fault() -> None:
    if not met:
        met.update(_campaign().met)
    numbers = {name: value for name, value in vars(faults).items() if name.isupper() and isinstance(value, int)}
    assert {name for name, value in numbers.items() if not met[value]} == {"CONTROL_SCHEMA"}


def _campaign() -> Campaign:
    campaign = Campaign(0, portable)
    campaign.run(50_000)
    return campaign


@pytest.mark.parametrize("text", sampled(range(8), 1))
def test_the_seeds_themselves(text: int) -> None:
    campaign = Campaign(0, NATIVE or portable)
    for seed in seeds():
        size = len(seed.data)
        difference = campaign.compare(Case(seed.data, size, size, rows=2, records=3, text=text))
        assert difference is None, report(difference)


def test_a_difference_is_found_and_can_be_seen_again() -> None:
    """Kernels that differ in one thing: the fuzzer must see it, and its reproducer must lead back to it."""

    class Broken:
        LogText, RecordColumns, OffsetMap = portable.LogText, portable.RecordColumns, portable.OffsetMap
        check, decode, find_batch = portable.check, portable.decode, portable.find_batch
        encode_kept, rewrite = portable.encode_kept, portable.rewrite

        @staticmethod
        def walk(*arguments: Any) -> int:
            status = portable.walk(*arguments)
            return faults.END if status == faults.PARTIAL else status

    campaign = Campaign(0, Broken)  # type: ignore[arg-type]
    difference = campaign.run(10_000)
    assert difference is not None
    assert difference.expected is not None
    assert difference.expected[0] == "walk"
    text = reproducer(difference.case)
    assert text in report(difference)
    again = case_of(text.partition("'")[2].rstrip("'"))
    assert again == difference.case
    assert campaign.compare(again) == difference


def test_an_exception_that_both_kernels_raise_is_a_difference() -> None:
    class Raising:
        LogText = portable.LogText

        @staticmethod
        def walk(*_: object) -> int:
            raise IndexError("beyond")

    difference = Campaign(0, Raising, Raising).compare(Case(b"", 0, 0))  # type: ignore[arg-type]
    assert difference is not None
    assert difference.found == ("raised", "IndexError: beyond")
