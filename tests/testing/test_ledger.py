"""Ledgers of campaigns: what was noted is read again, also around a line that was cut off."""

from pathlib import Path

from rushlight.testing.ledger import note, noted


def test_a_line_that_was_cut_off_costs_no_other(tmp_path: Path):
    ledger = tmp_path / "ledger"
    note(ledger, {"name": "first"})
    with ledger.open("a") as file:
        file.write('{"name": "cut')
    note(ledger, {"name": "second"})
    note(ledger, {"name": "third"})
    assert [run["name"] for run in noted(ledger, dict)] == ["first", "second", "third"]
    assert not list(noted(tmp_path / "none", dict))
