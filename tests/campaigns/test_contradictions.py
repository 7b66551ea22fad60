"""A short run of the campaign of directories with several damages, and what its damages are."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from tests.agreement.directories import FIXTURES
from tests.campaigns.contradictions import Campaign, Tally
from tests.campaigns.file_damages import Damaging, damage


@pytest.mark.slow
def test_no_two_commands_contradict_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    campaign, tally = Campaign(1, tmp_path), Tally()
    for number in range(12):
        campaign.run(number, tally)
    assert tally.wrong == []
    assert tally.damages > 20


def test_damages_are_those_of_the_seed(tmp_path: Path) -> None:
    said = []
    for root in (tmp_path / "one", tmp_path / "other"):
        shutil.copytree(FIXTURES / "corpus" / "s-src-none", root / "data")
        files = Damaging.of(root)
        said.append([damage(files, random.Random(number)) for number in range(40)])
    assert said[0] == said[1]
    assert len(set(said[0])) > 20
