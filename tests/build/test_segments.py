"""What lies between native calls: each step reads what an earlier one has made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

import rushlight as rl
from rushlight.build.segments import NativeStep, Step, UnbackedOutput, cut_at_unbacked_outputs, verify_steps
from rushlight.capture import segmented
from rushlight.ir.graph import Graph
from rushlight.support.errors import CompileError


def _program(x: rl.Tensor) -> rl.Tensor:
    """Sizes that values tell, a number that they tell, and a value that is made before and used after."""
    scaled = x * 2.0
    kept = scaled[x > 0]
    return kept.unique().sum() + scaled.sum() * kept.shape[0]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> tuple[Graph, list[Step]]:
    """The program's graph and its steps."""
    found: list[tuple[Graph, list[Step]]] = []

    def cut_and_keep(graph: Graph) -> list[Step]:
        found.append((graph, cut_at_unbacked_outputs(graph)))
        return found[-1][1]

    monkeypatch.setattr(segmented, "cut_at_unbacked_outputs", cut_and_keep)
    rl.compile(_program)(rl.tensor([1.0, -1.0, 2.0]))
    return found[0]


def _message_of(graph: Graph, steps: Sequence[Step]) -> str:
    with pytest.raises(CompileError) as caught:
        verify_steps(graph, steps)
    return str(caught.value)


def test_a_step_that_is_missing_is_found(cut: tuple[Graph, list[Step]]) -> None:
    graph, steps = cut
    verify_steps(graph, steps)
    makers = [number for number, step in enumerate(steps) if not isinstance(step, UnbackedOutput)]
    assert len(makers) > 2
    for number in makers:
        message = _message_of(graph, steps[:number] + steps[number + 1 :])
        assert "no earlier step" in message or "no step" in message


def test_a_size_that_is_told_too_late_is_found(cut: tuple[Graph, list[Step]]) -> None:
    graph, steps = cut
    unbacked_outputs = [step for step in steps if isinstance(step, UnbackedOutput)]
    assert "a size is needed" in _message_of(
        graph, [*[step for step in steps if step not in unbacked_outputs], *unbacked_outputs]
    )


def test_a_result_that_a_step_does_not_make_is_found(cut: tuple[Graph, list[Step]]) -> None:
    graph, steps = cut
    for number, step in enumerate(steps):
        for place in range(len(step.makes)) if isinstance(step, NativeStep) else ():
            less = replace(step, makes=step.makes[:place] + step.makes[place + 1 :])
            assert "no " in _message_of(graph, [*steps[:number], less, *steps[number + 1 :]])


def test_steps_are_verified_where_programs_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_first(graph: Graph) -> list[Step]:
        return cut_at_unbacked_outputs(graph)[1:]

    monkeypatch.setattr(segmented, "cut_at_unbacked_outputs", without_first)
    with pytest.raises(CompileError, match="no earlier step makes"):
        rl.compile(_program)(rl.tensor([1.0, -1.0, 2.0]))


def test_a_value_that_is_only_written_has_no_memory_beside_what_it_overwrites(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Step] = []

    def cut_and_keep(graph: Graph) -> list[Step]:
        found.extend(cut_at_unbacked_outputs(graph))
        return found

    monkeypatch.setattr(segmented, "cut_at_unbacked_outputs", cut_and_keep)

    def update(table: rl.Tensor, keys: rl.Tensor) -> None:
        table.copy_(table - keys[keys.argsort()])

    table = rl.tensor([5.0, 6.0, 7.0])
    rl.compile(update)(table, rl.tensor([3.0, 1.0, 2.0]))
    last = found[-1]
    assert isinstance(last, NativeStep) and last.graph.mutations and not last.makes
    assert table.tolist() == [4.0, 4.0, 4.0]
