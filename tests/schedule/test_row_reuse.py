"""Heavy elements of a reduction that the result needs again are computed once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel_text import plan_text
from rushlight.ir.target import Target
from rushlight.ops.record import OPERATORS

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
PROGRAM = """\
g(%x: f32[s0, s1]) {
  size s0 = 64
  size s1 = 128
BODY
}"""
SUM = "  %1 = sum(%0) {dim=[1], keepdim=true} : f32[s0, 1]\n  %2 = div(%0, %1) : f32[s0, s1]\n  return %2"


def text(body: str) -> str:
    """The plan of a program over rows."""
    graph = parse_graph(PROGRAM.replace("BODY", body), OPERATORS)
    return plan_text(run_passes(graph, TARGET, until="07-tiled.ir"))


def test_exponentials_are_kept_and_cheap_elements_are_not():
    heavy = text("  %0 = exp(%x) : f32[s0, s1]\n" + SUM)
    assert heavy.count("keep(") == 1
    assert heavy.count("scale(") == 1
    assert "keep(" not in text("  %0 = relu(%x) : f32[s0, s1]\n" + SUM)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: rl.softmax(x, -1),
    "twice": lambda x: (rl.exp(x) / rl.exp(x).sum(-1, keepdim=True), rl.exp(x) * 2.0),
    "with_the_sum": lambda x: (x.exp() / x.exp().sum(-1, keepdim=True), x.exp().sum(-1)),
    "two_sums": lambda x: x.exp() / x.exp().sum(-1, keepdim=True) + x.sin() * x.sin().sum(-1, keepdim=True),
    "in_place": lambda x: x.copy_(x.exp() / x.exp().sum(-1, keepdim=True)),
    "columns": lambda x: x.exp() / x.exp().sum(0, keepdim=True),
    "joined": lambda x: (
        x.exp() / x.exp().sum(-1, keepdim=True),
        rl.cat([x.exp() / x.exp().sum(-1, keepdim=True), x], -1),
    ),
    "half": lambda x: rl.softmax(x.bfloat16(), -1),
}


@pytest.mark.generated("name")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 64), (5, 65), (2, 8193), (0, 3), (3, 0), (300, 130)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_has_the_bits_of_eager(name: str, shape: tuple[int, int], threads: int):
    if name in ("softmax", "half") and 0 in shape:
        shape = (1, 2)  # there is nothing to choose the largest from
    array = np.random.default_rng(0).standard_normal(shape).astype("float32")
    if array.size > 100:
        array[-1, -1], array[0, 0] = np.inf, np.nan
    before = rl.get_num_threads()
    try:
        rl.set_num_threads(threads)
        found = rl.compile(FUNCTIONS[name])(rl.from_numpy(array.copy()))
        wanted = FUNCTIONS[name](rl.from_numpy(array.copy()))
    finally:
        rl.set_num_threads(before)
    pairs = zip(*[item if isinstance(item, tuple) else (item,) for item in (found, wanted)], strict=True)
    for one, other in pairs:
        np.testing.assert_array_equal(one.float().numpy(), other.float().numpy())
