"""Bits turned over and files cut: verify reports what a reader would notice. All of it is in tests.verify.flips."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats.codecs import NAMES
from tests.sampling import sampled
from tests.verify.flips import FORMATS, Sample, index_samples, log_sample, outcomes, transaction_samples

STEP = 11
"""Every 11th bit: it meets every byte but a few, at a bit that differs from byte to byte."""
UNREAD = 6
"""Damages of each .index and .timeindex that no reader notices: what is left some broker may have written."""


@pytest.mark.parametrize(
    ("magic", "codec"), sampled(FORMATS, 3), ids=[f"v{magic}-{NAMES[codec]}" for magic, codec in FORMATS]
)
def test_every_damage_to_a_log_is_reported(magic: int, codec: int, tmp_path: Path) -> None:
    sample = log_sample(tmp_path, magic, codec)
    found = list(outcomes(sample, STEP))
    assert len(found) > 150
    assert [outcome for outcome in found if not outcome.codes] == []


def test_every_damage_to_transactions_is_reported(tmp_path: Path) -> None:
    for sample in transaction_samples(tmp_path):
        assert [outcome for outcome in outcomes(sample, STEP) if not outcome.codes] == []


def index_sample(number: int, folder: Path) -> Sample:
    return list(index_samples(folder))[number]


@pytest.mark.parametrize("number", sampled(range(4), 1))
def test_every_damage_to_an_index_is_reported_or_harmless(number: int, tmp_path: Path) -> None:
    found = list(outcomes(index_sample(number, tmp_path)))
    unsaid = [outcome for outcome in found if not outcome.codes]
    assert len(unsaid) <= UNREAD
    assert [outcome for outcome in unsaid if outcome.changed] == []


@pytest.mark.parametrize(("magic", "codec"), sampled([(0, 1), (1, 3), (2, 0), (2, 4)], 1))
def test_what_is_missed_after_a_crash_or_without_decoding_is_little(magic: int, codec: int, tmp_path: Path) -> None:
    crashed = list(outcomes(log_sample(tmp_path / "crashed", magic, codec, closed=False), 4 * STEP + 1))
    shallow = list(outcomes(log_sample(tmp_path / "shallow", magic, codec), 4 * STEP + 1, deep=False))
    for found in (crashed, shallow):
        assert len([outcome for outcome in found if not outcome.codes]) <= len(found) // 50
