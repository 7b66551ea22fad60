"""A short run of the campaign of random clusters whose copies part."""

from __future__ import annotations

from pathlib import Path

from tests.campaigns.divergences import Tally, campaign


def test_copies_are_healed_and_follow_without_losing_what_is_committed(tmp_path: Path) -> None:
    tally = Tally()
    campaign(range(40), tmp_path, tally)
    assert tally.wrong == []
    assert tally.copies_part > 20
    assert tally.outcomes["healed"] > 20
    assert tally.cut > 10
