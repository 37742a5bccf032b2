"""Families of generated tests: each day a part, each member in turn, and never none."""

from types import SimpleNamespace

import pytest

from turns import due, not_due


class Collected(SimpleNamespace):
    """A test as pytest collects it."""

    __hash__ = object.__hash__


MARKER = SimpleNamespace(args=("question",), kwargs={})


def item(function: str, number: int, question: str, marker: object = MARKER) -> Collected:
    """What is read of a collected test."""
    return Collected(
        nodeid=f"tests/test_it.py::{function}[{number}-{question}]",
        callspec=SimpleNamespace(params={"number": number, "question": question}),
        get_closest_marker=lambda name: marker if name == "generated" else None,
    )


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("turns", [1, 2, 3, 8])
def test_each_member_comes_once_in_its_turns(count, turns):
    members = [f"member {number}" for number in range(count)]
    parts = min(turns, count)
    days = [due(members, turns, 739_000 + day) for day in range(parts)]
    assert sorted(name for day in days for name in day) == sorted(members)
    assert all(count // parts <= len(day) <= -(-count // parts) for day in days)
    assert due(reversed(members), turns, 739_000) == days[0]


def test_every_value_of_what_a_marker_names_is_asked_each_day():
    items = [item("test_cells", number, question) for question in ("sums", "signs") for number in range(9)]
    for day in range(4):
        left = not_due(items, 4, day, ())
        assert {each.callspec.params["question"] for each in items if each not in left} == {"sums", "signs"}
        assert 12 <= len(left) <= 14


def test_others_and_those_that_are_named_are_always_asked():
    items = [item("test_cells", number, "sums") for number in range(9)]
    alone = [item("test_all", number, "sums", marker=None) for number in range(9)]
    for day in range(3):
        left = not_due([*items, *alone], 3, day, ["./tests/test_it.py::test_cells[4-sums]", "tests"])
        assert items[4] not in left and left.isdisjoint(alone)


def test_functions_may_be_one_family():
    marker = SimpleNamespace(args=("question",), kwargs={"family": "devices"})
    items = [item(f"test_{device}", 0, question, marker) for device in ("cpu", "gpu", "npu") for question in "ab"]
    left = not_due(items, 3, 0, ())
    assert sorted(each.callspec.params["question"] for each in items if each not in left) == ["a", "b"]


def test_a_mark_on_a_test_without_parameters_is_refused():
    one = Collected(nodeid="tests/test_it.py::test_one", get_closest_marker=lambda name: MARKER)
    with pytest.raises(pytest.UsageError, match="no parameters"):
        not_due([one], 2, 0, ())
