"""A short run of the campaign of random clusters whose copies part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.divergences import Tally, campaign

pytestmark = pytest.mark.slow


def test_copies_are_healed_and_follow_without_losing_what_is_committed(tmp_path: Path) -> None:
    tally = Tally()
    campaign(range(40), tmp_path, tally)
    assert tally.wrong == []
    assert tally.copies_part > 20
    assert tally.outcomes["healed"] > 20
    assert tally.cut > 10


@pytest.mark.parametrize("seed", [61210, 62170])
def test_what_a_damaged_header_says_hides_no_batch_of_the_next_segment(seed: int, tmp_path: Path) -> None:
    """The last batch of a closed segment claims offsets far above it: the copy's own records behind it stay."""
    tally = Tally()
    campaign(range(seed, seed + 1), tmp_path, tally)
    assert tally.wrong == []
    assert tally.outcomes["healed"] == 1
