"""A sample of the operators on divided tensors; `python -m matrix_divided` asks all."""

import pytest

import matrix_divided
from matrix_cases import ASKED
from matrix_divided import ask, failures
from rushlight.distributed.tensor import dispatch, rules

SAMPLE = ASKED[5::41]


@pytest.mark.row("8.1")
@pytest.mark.parametrize("op", SAMPLE)
def test_operators_give_what_they_give_on_whole_tensors(op):
    found = failures(op, most=2)
    assert not found, "\n".join(found)


def test_a_rule_that_is_wrong_is_noticed(monkeypatch):
    assert not ask("sum", 6, (4,))
    broken = rules.derive

    def derive(*arguments):
        rule = broken(*arguments)
        part = rule.derived[0]
        changed = [one._replace(reduction="max") if one.reduction == "sum" else one for one in part.divisions]
        return rule._replace(derived=(part._replace(divisions=tuple(changed)), *rule.derived[1:]))

    dispatch.clear_caches()
    monkeypatch.setattr(dispatch, "derive", derive)
    assert ask("sum", 6, (4,))
    dispatch.clear_caches()


def test_every_placement_is_asked():
    prepared = matrix_divided.Prepared("matmul", 0)
    ways = matrix_divided.ways(prepared, (4,))
    assert len(ways) == min(16, matrix_divided.MOST)
    assert len(set(ways)) > 6
