"""No operator's work grows faster than its operands and results do: four times a size, about four times the work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import pytest

from plan_work import _KernelWork, work_of
from rushlight.build.pipeline import run_passes
from rushlight.ir.plan import Plan
from rushlight.ops import OPERATORS
from rushlight.runtime.llvm import baseline_target
from rushlight.sym import SizeExpr, evaluate
from rushlight.testing.making import single_calls, sized_operators
from rushlight.testing.programs import Input, Own
from rushlight.testing.traced import Pool, Traced

SMALL, LARGE = 1 << 16, 1 << 18
MOST = 1.5  # of what elements grow by: work in blocks is rounded up
SAMPLES = 4
"""So many samples of an operator are tried."""

_WINDOW = "a size of its sample is that of a window and of channels or images: the work is of both"
_QUERIES = "its sample has as many queries as keys: each meets each"
GROWS = {
    "attend": _QUERIES,
    "scaled_dot_product_attention": _QUERIES,
    "convolution_input": _WINDOW,
    "convolution_weight": _WINDOW,
    "conv_transpose1d": _WINDOW,
    "conv_transpose2d": _WINDOW,
    "conv_transpose3d": _WINDOW,
    "pdist": "each row meets each",
    "index_put": "a size of its sample is that of an index and of a dim that has none: as many elements are written",
}
"""Operators whose work grows faster, and why."""


def elements(traced: Traced, sizes: Mapping[SizeExpr, int]) -> int:
    """Of all values together."""
    shapes = [type_.shape for type_ in traced.types if type_ is not None]
    return sum(math.prod([max(0, evaluate(size, sizes)) for size in shape]) for shape in shapes)


def plans(name: str) -> list[tuple[Traced, Plan]]:
    """An operator's samples as plans for sizes that nobody knows."""
    found: list[tuple[Traced, Plan]] = []
    for program in single_calls(OPERATORS[name])[:SAMPLES]:
        pool = Pool()
        traced = pool.trace(program)
        if traced.results() and traced.places:
            found.append((traced, run_passes(pool.graph([traced]), baseline_target(), until="07-tiled.ir")))
    return found


def sample_of(traced: Traced, symbol: SizeExpr) -> int:
    """A size as it is in the sample."""
    value, _, dim = traced.places[symbol]
    part = traced.program.parts[value]
    assert isinstance(part, Input)
    size = part.dims[dim]
    assert isinstance(size, Own)
    return size.sample


def growth(traced: Traced, plan: Plan) -> Iterator[tuple[float, str]]:
    """By which factor work grows more than elements do with each size, the others as in the sample; which size."""
    samples = {symbol: sample_of(traced, symbol) for symbol in traced.places}
    for symbol in traced.places:
        small, large = ({**samples, symbol: size} for size in (SMALL, LARGE))
        if all(item.condition.holds(sizes) for item in traced.asserts for sizes in (small, large)):
            before, after = (work_of(plan, sizes) / max(1, elements(traced, sizes)) for sizes in (small, large))
            value, _, dim = traced.places[symbol]
            yield after / before if before else 1.0, f"{traced.program.name}: dim {dim} of input {value}"


def most_growth(name: str) -> tuple[float, str]:
    """The most that the work of an operator grows more than its elements, and where."""
    return max([found for traced, plan in plans(name) for found in growth(traced, plan)], default=(1.0, ""))


@pytest.mark.generated
@pytest.mark.parametrize("name", [op.name for op in sized_operators()])
def test_work_grows_as_elements_do(name: str) -> None:
    most, which = most_growth(name)
    assert (most > MOST) == (name in GROWS), f"{which}: {most:.1f} times what elements grow by; {GROWS.get(name, '')}"


def test_sums_from_the_start_for_each_result_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_KernelWork, "_is_running", lambda self, term: False)
    assert most_growth("cumsum")[0] > 3
