"""Why a call is compiled again: what differs from the graph that fits best, in the words of users."""

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import ones
from rushlight.support import events


@pytest.fixture(autouse=True)
def fresh() -> None:
    """No graphs, no events."""
    rl.compiler.reset()
    events.reset()


@pytest.mark.parametrize(
    ("second", "kind", "reason"),
    [
        (lambda: (ones(4, 3), False), "constant", "flag is not True"),
        (lambda: (ones(4, 3).double(), True), "tensor", "x is float64, not float32"),
        (lambda: (ones(3), True), "tensor", "x has 1 dims, not 2"),
        (lambda: (ones(3, 4).T, True), "tensor", "x.stride(0) is 1, not 3"),
        (lambda: (ones(9, 3), True), "size", "x.shape[0] >= 8 now, asked by test_misses.py:"),
        (lambda: (ones(4, 3).requires_grad_(), True), "tensor", "x is not a tensor, requires_grad=False"),
    ],
)
def test_a_recompile_says_what_differs(second: Callable[[], tuple[Any, bool]], kind: str, reason: str):
    def f(x: Any, flag: bool) -> Any:
        return x + 1 if flag and x.shape[0] < 8 else x

    compiled = rl.compile(f)
    compiled(ones(4, 3), True)
    compiled(*second())
    (event,) = events.events("recompile")
    assert event.code == kind and event.reason.startswith(reason), event


def test_a_recompile_names_the_graph_that_fits_best():
    compiled = rl.compile(lambda x, mode: x + len(mode) if x.shape[0] % 3 == 0 else x)
    compiled(ones(3), "a")
    compiled(ones(3), "b")
    compiled(ones(4), "a")
    _, event = events.events("recompile")
    assert event.reason.startswith("x.shape[0]%3 != 0 now, asked by") and event.reason.endswith(
        "as graph 1 of 2 has it"
    )
