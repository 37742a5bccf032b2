"""The comparison of two checkouts: a tree beside itself, what is called slower, and going on from a ledger."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from rushlight.bench.catalog import CASES
from rushlight.testing.ledger import note
from tools import compare_trees
from tools.compare_trees import Compared, Tree, jobs, report, rows_of

HERE = Path(__file__).parents[2]
CASE = "add-2-tensors-of-4"


def test_a_tree_beside_itself_is_about_as_fast_and_is_measured_once(tmp_path, capsys):
    ledger = tmp_path / "ledger.json"
    words = [str(HERE), str(HERE), "--cases", CASE, "--modes", "eager", "--rounds", "5", "--ledger", str(ledger)]
    compare_trees.main(words)
    first = capsys.readouterr().out
    (line,) = ledger.read_text().splitlines()
    run = Compared(**json.loads(line))
    assert len(run.old) == len(run.new) == 5
    assert 0.2 < rows_of([run])[0].ratio < 5
    compare_trees.main(words)
    assert capsys.readouterr().out == first
    assert len(ledger.read_text().splitlines()) == 1


def test_what_is_slower_by_median_and_fastest_sample_is_named_and_ends_with_1(tmp_path, capsys):
    ledger = tmp_path / "ledger.json"
    commit = Tree(HERE, "python").commit
    slower = Compared(CASE, "eager", 0, (commit, commit), [1.0, 1.1, 1.0], [1.1, 1.2, 1.1])
    note(ledger, asdict(slower))
    words = [str(HERE), str(HERE), "--cases", CASE, "--modes", "eager", "--ledger", str(ledger)]
    assert compare_trees.main(words) == 1
    assert f"slower: {CASE} eager, 1.10, fastest 1.10" in capsys.readouterr().out


def test_one_slow_round_or_one_fast_sample_alone_is_not_slower():
    by_median = Compared("a", "eager", 0, ("x", "y"), [1.0, 1.0, 1.0], [1.2, 1.2, 1.0])
    by_fastest = Compared("b", "eager", 0, ("x", "y"), [1.0, 2.0, 2.0], [1.2, 2.0, 2.0])
    assert [row.slower for row in rows_of([by_median, by_fastest])] == [False, False]


def test_pairs_of_a_case_are_one_row_and_failures_are_told(capsys):
    runs = [Compared("a", "eager", pair, ("x", "y"), [1.0], [factor]) for pair, factor in enumerate((0.5, 1.0, 1.1))]
    assert report([*runs, Compared("b", "eager", 0, ("x", "y"), reason="old: bang")]) == 0
    said = capsys.readouterr().out
    assert "| a eager | 1000 | 1.00 | 0.50 |" in said
    assert "not measured: b eager: old: bang" in said


@pytest.mark.parametrize(("parts", "some"), [([], "demo-step"), (["lstm", "vmap"], "layers/lstm-50x32x256")])
def test_cases_are_found_by_parts_of_their_names_or_by_families(parts, some):
    found = [(case.name, mode) for case, mode, _ in jobs(parts, ["compiled", "eager"], 1)]
    names = [name for name, _ in found]
    assert some in names
    assert all(name in CASES for name in names)
    assert all(any(part in name for part in parts) for name in names) or not parts
