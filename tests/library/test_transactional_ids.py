"""`kdump.transactional_ids`: what `kdump txns` says of transactional ids."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import kdump
from kdump.commands.cli import cli
from kdump.errors import KdumpError, NameFormatError
from kdump.topics.transaction_ids import TransactionalId
from tests.rows import rows_in

CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
STATE = CORPUS / "f-transaction-state"
NOW = 1_800_000_000_000


def test_they_are_those_of_the_command() -> None:
    words = ["txns", str(STATE), "--all", "-o", "jsonl", "--now", str(NOW)]
    shown = rows_in(CliRunner().invoke(cli, words, standalone_mode=False).stdout)
    rows = [row for row in shown if row["type"] == "transactionalId"]
    found = [each for each in kdump.transactional_ids(STATE, errors="skip") if isinstance(each, TransactionalId)]
    assert rows
    assert [(each.transactional_id, each.producer_id) for each in found] == [
        (row["transactionalId"], row["producerId"]) for row in rows
    ]
    assert [each.is_stuck(NOW) for each in found] == [row["isStuck"] for row in rows]


def test_wrong_calls() -> None:
    with pytest.raises(KdumpError, match="no partition of __transaction_state"):
        kdump.transactional_ids(CORPUS / "s-src-txn")
    with pytest.raises(ValueError, match="errors is 'ignore'"):
        kdump.transactional_ids(STATE, errors="ignore")
    with pytest.raises(NameFormatError):
        kdump.transactional_ids(STATE / "meta.properties")
