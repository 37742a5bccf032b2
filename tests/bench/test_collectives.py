"""Collectives are timed by a job of ranks that takes turns; without a peer, ours alone."""

import importlib.util

import pytest

from rushlight.bench.ranks import collectives
from rushlight.bench.ranks.collectives import Measured, as_table, measure_collectives
from rushlight.cli import benchmarks
from rushlight.support.errors import RushlightError

needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")


@needs_mpi
def test_ours_is_timed_alone(monkeypatch):
    monkeypatch.setattr(collectives, "SIZES", (1 << 10,))
    monkeypatch.setattr(collectives, "MOVED", 1 << 10)
    monkeypatch.setattr(collectives, "SAVED", 1 << 10)
    results = measure_collectives(None, 2, 2, 120.0, lambda text: None)
    assert [one.case for one in results] == [
        f"{name}/1024" for name in (*collectives.VERBS, *collectives.MOVES, "save", "load")
    ]
    assert all(len(one.turns["rushlight"]) == 2 and min(one.turns["rushlight"]) > 0 for one in results)
    head, first, *_ = as_table(results).rows
    assert len(head) == len(first) and first[0] == "all_reduce/1024"


@needs_mpi
def test_a_job_that_ends_is_an_error(monkeypatch):
    monkeypatch.setattr(collectives, "SIZES", (-1,))
    monkeypatch.setattr(collectives, "VERBS", ("no_such_verb",))
    with pytest.raises(RushlightError, match="a job has ended with status") as caught:
        measure_collectives(None, 2, 1, 120.0, lambda text: None)
    assert caught.value.code == "A002"


def test_a_verb_that_there_is_not_is_an_error_with_the_names():
    with pytest.raises(RushlightError, match="there is no collective nonsense") as caught:
        benchmarks.collectives(only="nonsense")
    assert caught.value.code == "A002" and "all_reduce" in str(caught.value)


def test_ratios_are_of_turns_beside_each_other():
    one = Measured("all_reduce/1024", {"rushlight": [1.0, 4.0, 1.0], "torch": [2.0, 8.0, 1.0]})
    assert one.ratio == 0.5
    assert as_table([one]).rows[1] == ["all_reduce/1024", "1.00 s", "2.00 s", "0.50", "1.00 s", "1.00 s", "1.00"]
