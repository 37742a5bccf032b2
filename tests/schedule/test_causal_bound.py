"""Row blocks of causal attention leave out what is zero, and nobody can tell."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.eager.functions import causal_softmax
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.outline import plan_outline
from rushlight.ir.plan import RowBlockKernel
from rushlight.ir.target import Target
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
ATTENTION = """\
g(%q: f32[s0, s1, 64], %k: f32[s0, s1, 64], %v: f32[s0, s1, 64]) {
  size s0 = 12
  size s1 = 1024
  %0 = transpose(%k) {dim0=-2, dim1=-1} : f32[s0, 64, s1] strides [s1*64, 1, 64]
  %1 = matmul(%q, %0) : f32[s0, s1, s1]
  %2 = causal_softmax(%1) : f32[s0, s1, s1]
  %3 = matmul(%2, %v) : f32[s0, s1, 64]
"""
CAUSAL = ATTENTION + "  return RESULTS\n}"


def row_blocks(results: str) -> tuple[Any, RowBlockKernel]:
    """The plan of causal attention that returns some of its values, and its row blocks."""
    plan = run_passes(parse_graph(CAUSAL.replace("RESULTS", results), OPERATORS), TARGET, until="07-tiled.ir")
    (found,) = (kernel for kernel in plan.kernels if isinstance(kernel, RowBlockKernel))
    return plan, found


def test_all_launches_of_a_band_end_at_its_reach(golden: Callable[[str, str], None]):
    plan, found = row_blocks("%3")
    assert found.causal_bound is not None
    for launch in found.launches:
        assert found.causal_bound.symbol in launch.arguments
    golden("causal_attention.txt", f"{CAUSAL.replace('RESULTS', '%3')}\n\n{plan_outline(plan)}")


def test_what_others_read_is_whole():
    plan, found = row_blocks("%3, %2")
    assert found.causal_bound is not None
    for launch in found.launches:
        assert found.causal_bound.symbol in launch.arguments
    weights, zeros = found.launches[1:3]
    assert plan.outputs[1] in weights.buffers
    assert zeros.buffers == (plan.outputs[1],), "weights beyond the reach are zeros, but they are written"


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def parts(q: Any, k: Any, v: Any) -> Any:
    """The same in steps, each a kernel of its own when run eagerly."""
    return causal_softmax(q @ k.mT * (1.0 / q.shape[-1] ** 0.5)) @ v


def operands(rows: int, keys: int, special: float | None) -> list[Any]:
    rng = np.random.default_rng(rows)
    arrays = [rng.standard_normal((2, 3, size, 16)).astype("float32") for size in (rows, keys, keys)]
    if special is not None:
        for place, array in enumerate(arrays):
            array[0, place, -1, 3] = special
            array[1, place, array.shape[2] // 2, 0] = special
    return [rl.from_numpy(array) for array in arrays]


@pytest.mark.generated("special")
@pytest.mark.parametrize("special", [None, float("inf"), float("nan"), -0.0, 1e-42, 3e38])
@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (7, 7), (200, 200), (300, 130), (130, 300), (700, 700)])
def test_bits_are_those_of_the_whole(rows: int, keys: int, special: float | None):
    given = operands(rows, keys, special)
    whole = parts(*given)
    for threads in (1, 2):
        before = rl.get_num_threads()
        try:
            rl.set_num_threads(threads)
            found = (rl.compile(causal)(*given), causal(*given), rl.compile(parts)(*given))
        finally:
            rl.set_num_threads(before)
        for one in found:
            np.testing.assert_array_equal(one.numpy(), whole.numpy())
            np.testing.assert_array_equal(
                np.signbit(one.nan_to_num(0.0).numpy()), np.signbit(whole.nan_to_num(0.0).numpy())
            )


def test_products_that_underflow_do_not_tell():
    q = rl.zeros(1, 1, 120, 16)
    v = rl.full((1, 1, 120, 16), -1e-45)
    v[..., 60:, :] = 1.0
    whole = causal_softmax(q @ q.mT) @ v
    found = rl.compile(causal)(q, q, v)
    np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(whole.numpy()))
    np.testing.assert_array_equal(found.numpy(), whole.numpy())


def kept(q: Any, k: Any, v: Any) -> tuple[Any, ...]:
    """Weights that others read: an output, and the row blocks of a gradient that waits for all of the result."""
    weights = causal_softmax(q @ k.mT)
    result = weights @ v
    slope = ((result + result.sum()) @ v.mT).tril()
    slope = weights * (slope - (slope * weights).sum(-1, True)).tril()
    return result, weights, slope @ k, slope.mT @ q, weights.mT @ result


@pytest.mark.generated("special")
@pytest.mark.parametrize("special", [None, float("inf"), float("nan"), -0.0])
@pytest.mark.parametrize(("rows", "keys"), [(7, 7), (300, 130), (130, 300), (700, 700)])
def test_bits_are_those_of_the_whole_where_weights_are_kept(rows: int, keys: int, special: float | None):
    given = operands(rows, keys, special)
    for one, other in zip(rl.compile(kept)(*given), kept(*given), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


KEPT = (
    ATTENTION
    + """\
  %4 = sum(%3) {dim=[], keepdim=false} : f32[]
  %5 = add(%3, %4, none) : f32[s0, s1, 64]
  %6 = transpose(%v) {dim0=-2, dim1=-1} : f32[s0, 64, s1] strides [s1*64, 1, 64]
  %7 = matmul(%5, %6) : f32[s0, s1, s1]
  %8 = tril(%7) {diagonal=0} : f32[s0, s1, s1]
  %9 = mul(%8, %2) : f32[s0, s1, s1]
  %10 = matmul(%9, %k) : f32[s0, s1, 64]
  return %10
}"""
)


def test_zeros_that_other_row_blocks_have_written_are_known():
    plan = run_passes(parse_graph(KEPT, OPERATORS), TARGET, until="07-tiled.ir")
    first, second = (kernel for kernel in plan.kernels if isinstance(kernel, RowBlockKernel))
    assert first.causal_bound is not None
    assert second.causal_bound is not None
    assert all(second.causal_bound.symbol in launch.arguments for launch in second.launches)
