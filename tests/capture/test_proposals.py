"""Specifications proposed from what compiled functions have been given."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.compiler import graph_count, propose_specs
from rushlight.shapes import coverage_hole
from rushlight.support.errors import RushlightError
from tensors import data, same


def branching(x: Any, y: Any) -> Any:
    return (x + y).relu() if x.shape[0] < 8 else x - y


def test_proposals_compile_to_artifacts_for_the_same_calls():
    compiled = rl.compile(branching)
    calls = [(data(rows, 3), data(rows, 3)) for rows in (4, 9, 2, 30)]
    calls.append((data(1, 3), data(5, 3)))
    for call in calls:
        compiled(*call)
    proposals = propose_specs(compiled)
    assert len(proposals) == graph_count() == 3
    ahead = rl.compile(branching, specs=proposals)
    assert all(same(ahead(*call), branching(*call)) for call in calls)


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (lambda x, n: x[:n], (data(6), 2), "f32[s0], int s1"),
        (lambda x, n: x * n, (data(6), 2), "f32[s0], int"),
        (lambda x, n: x * n, (data(6), 0.5), "f32[s0], float"),
        (lambda x, n: x * 2 if n > 1.5 else x, (data(6), 2.0), "f32[s0], 2.0"),
        (lambda x, n: x * 2 if n else x, (data(6), True), "f32[s0], True"),
        (lambda x, n: x[0] * n["a"], ((data(6),), {"a": data(6)}), "(f32[s0],), {a: f32[s0]}"),
    ],
)
def test_numbers_and_nesting_are_proposed_as_they_were_used(function: Any, arguments: Any, said: str):
    compiled = rl.compile(function)
    compiled(*arguments)
    (proposal,) = propose_specs(compiled)
    assert str(proposal).partition(" where")[0] == said
    assert coverage_hole(proposal, [proposal]) is None
    assert same(rl.compile(function, specs=proposal)(*arguments), function(*arguments))


def test_a_proposal_has_the_arguments_as_they_were_given():
    def scaled(x: Any, by: float = 2.0, *rest: Any, plus: Any = None, **named: Any) -> Any:
        return x * by + sum(rest, x) + named.get("z", x)

    for args, kwargs, said in [
        ((data(6),), {}, "f32[s0]"),
        ((data(6), 0.5), {}, "f32[s0], float"),
        ((data(6), 0.5, data(6)), {"z": data(6)}, "f32[s0], float, f32[s0], z=f32[s0]"),
        ((data(6),), {"by": 3.0, "plus": 1}, "f32[s0], by=float, plus=int"),
    ]:
        compiled = rl.compile(scaled)
        compiled(*args, **kwargs)
        (proposal,) = propose_specs(compiled)
        assert str(proposal).partition(" where")[0] == said
        assert same(rl.compile(scaled, specs=proposal)(*args, **kwargs), scaled(*args, **kwargs))


def test_what_was_not_compiled_has_no_proposals():
    assert propose_specs(rl.compile(branching)) == []
    with pytest.raises(RushlightError) as caught:
        propose_specs(branching)
    assert caught.value.code == "A001"
