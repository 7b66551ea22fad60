"""A short run of the campaign in which every call to the file system fails once."""

from __future__ import annotations

import errno
from pathlib import Path

from tests.campaigns.crash_states import Scenario
from tests.campaigns.fail_nth import change_with_faults, read_with_faults


def test_lookup_says_so_when_a_call_fails(tmp_path: Path) -> None:
    tally = read_with_faults("lookup", tmp_path, errno.EIO, lambda: False)
    assert tally.runs > 10
    assert tally.wrong == []


def test_trim_loses_nothing_when_a_call_fails(tmp_path: Path) -> None:
    tally = change_with_faults(Scenario("trim", "index with a zero tail"), tmp_path, errno.ENOSPC, lambda: False)
    assert tally.runs > 20
    assert tally.wrong == []
