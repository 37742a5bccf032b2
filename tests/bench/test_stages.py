"""The stages of small calls: what each call takes beyond the calls within it."""

import math

import pytest

from rushlight.bench.overhead import stages
from rushlight.bench.overhead.stages import Stage
from rushlight.bench.reports.tables import stages_table
from rushlight.support import settings


def test_shares_are_of_the_call_that_a_stage_belongs_to():
    measured = [Stage("sum", "frame", 300.0), Stage("sum", "rest", 100.0), Stage("product", "all", 2000.0)]
    table = stages_table({"stages": measured})
    assert table.rows[1:] == [
        ["sum", "frame", "300", "75%"],
        ["sum", "rest", "100", "25%"],
        ["product", "all", "2,000", "100%"],
    ]


def test_the_time_of_an_empty_function_is_taken_off(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stages.time, "process_time", lambda: now[0])
    monkeypatch.setattr(stages, "_nothing", lambda: now.__setitem__(0, now[0] + 1e-9))
    found = stages.nanoseconds({"slow": lambda: now.__setitem__(0, now[0] + 5e-9)}, 3, 10)
    assert found["slow"] == pytest.approx(4.0)


@pytest.mark.unpoisoned
@pytest.mark.skipif(settings.get().eager_calls != "native", reason="calls go through Python")
def test_all_stages_are_measured():
    whole: dict[str, float] = {}
    for _ in range(10):  # what else the machine does adds to a time, and never takes from it
        found = stages.measure_stages(rounds=3, repeat=400)
        for call in dict.fromkeys([one.call for one in found]):
            whole[call] = min(whole.get(call, math.inf), sum([one.ns for one in found if one.call == call]))
        if in_order(whole):
            break
    assert list(whole) == [
        "x + y",
        "w * x, recorded",
        "backward of 50 products",
        "compiled x * y + y",
        "compiled, 150 parameters",
    ]
    assert in_order(whole), whole


def in_order(whole):
    """Whether calls that do more take longer."""
    one, recorded, backward, compiled, wide = whole.values()
    return 0 < one < recorded < backward / 5 and 0 < compiled < wide


def test_without_native_calls_there_is_a_note(monkeypatch):
    monkeypatch.setattr(stages, "loaded", list)
    table = stages_table({"stages": stages.measure_stages()})
    assert (len(table.rows), table.notes) == (1, ["Without native calls there are no stages."])
