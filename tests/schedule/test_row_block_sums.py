"""Row blocks that come in order add up to what whole products are, bit for bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.eager.functions import causal_softmax
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.outline import plan_outline
from rushlight.ir.plan import Plan, RowBlockKernel
from rushlight.ir.target import Target
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
GRADIENTS = """\
g(%q: f32[s0, s1, 64], %k: f32[s0, s2, 64], %g: f32[s0, s1, 64]) {
  size s0 = 12
  size s1 = 1024
  size s2 = 1024
  %0 = transpose(%k) {dim0=-2, dim1=-1} : f32[s0, 64, s2] strides [s2*64, 1, 64]
  %1 = matmul(%q, %0) : f32[s0, s1, s2]
  %2 = SOFTMAX : f32[s0, s1, s2]
  %3 = transpose(%2) {dim0=-2, dim1=-1} : f32[s0, s2, s1] strides [s1*s2, 1, s2]
  %4 = matmul(%3, %g) : f32[s0, s2, 64]
  return RESULTS
}"""


def planned(softmax: str, results: str) -> Plan:
    """The plan of a gradient of values, which sums over the rows."""
    text = GRADIENTS.replace("SOFTMAX", softmax).replace("RESULTS", results)
    return run_passes(parse_graph(text, OPERATORS), TARGET, until="07-tiled.ir")


def row_blocks(plan: Plan) -> RowBlockKernel:
    """Its row blocks."""
    (found,) = (kernel for kernel in plan.kernels if isinstance(kernel, RowBlockKernel))
    return found


def test_row_blocks_in_order_add_to_a_sum(golden: Callable[[str, str], None]):
    plan = planned("causal_softmax(%1)", "%4")
    assert row_blocks(plan).in_order
    golden("row_block_sums.txt", plan_outline(plan))


def test_a_sum_ends_at_the_reach():
    found = row_blocks(planned("causal_softmax(%1)", "%4"))
    assert found.causal_bound is not None
    assert all(found.causal_bound.symbol in launch.arguments for launch in found.launches[:2])
    assert found.causal_bound.symbol in found.launches[3].arguments, "beyond, a row block has nothing to add"


def test_without_a_condition_there_is_no_reach():
    found = row_blocks(planned("softmax(%1) {dim=-1}", "%4"))
    assert found.in_order
    assert found.causal_bound is None


def test_what_is_made_of_a_sum_runs_after_all_row_blocks():
    text = GRADIENTS.replace("SOFTMAX", "softmax(%1) {dim=-1}")
    text = text.replace("return RESULTS", "%5 = exp(%4) : f32[s0, s2, 64]\n  return %5")
    plan = run_passes(parse_graph(text, OPERATORS), TARGET, until="07-tiled.ir")
    assert not row_blocks(plan).in_order, "the product stores what its epilogue makes of the whole sum"


def attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def whole(q: Any, k: Any, v: Any, g: Any, causal: bool) -> tuple[Any, ...]:
    """The result and the gradients in steps, each a kernel of its own over whole matrices."""
    scale = 1.0 / q.shape[-1] ** 0.5
    scores = q @ k.mT * scale
    weights = causal_softmax(scores) if causal else rl.softmax(scores, -1)
    slope = g @ v.mT
    slope = slope.tril() if causal else slope
    difference = slope - (slope * weights).sum(-1, True)
    slope = weights * (difference.tril() if causal else difference)
    return weights @ v, slope @ (k * scale), slope.mT @ (q * scale), weights.mT @ g


def operands(rows: int, keys: int, special: float | None) -> list[Any]:
    rng = np.random.default_rng(rows)
    arrays = [rng.standard_normal((2, 3, size, 16)).astype("float32") for size in (rows, keys, keys, rows)]
    if special is not None:
        for place, array in enumerate(arrays[: 3 if rows % 2 else 4]):
            array[0, place % 3, -1:, 3] = special
            array[1, place % 3, array.shape[2] // 2 :, 0] = special
    return [rl.from_numpy(array) for array in arrays]


def assert_same_bits(one: Any, other: Any) -> None:
    """All but those of NaN."""
    np.testing.assert_array_equal(one.numpy(), other.numpy())
    signs = [np.signbit(item.nan_to_num(0.0).numpy()) for item in (one, other)]
    np.testing.assert_array_equal(*signs)


SHAPES = [(0, 5), (1, 1), (7, 7), (256, 256), (257, 257), (700, 700), (300, 130), (130, 600), (1100, 300)]


@pytest.mark.generated("special", "causal")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("special", [None, float("inf"), float("nan"), -0.0, 1e-42, 3e38])
@pytest.mark.parametrize(("rows", "keys"), SHAPES)
def test_gradients_have_the_bits_of_whole_products(rows: int, keys: int, special: float | None, causal: bool):
    *given, g = operands(rows, keys, special)
    wanted = whole(*given, g, causal)
    for item in given:
        item.requires_grad_()
    before = rl.get_num_threads()
    for threads in (1, 2, 3):
        try:
            rl.set_num_threads(threads)
            for function in (rl.compile(attention), attention):
                result = function(*given, causal)
                found = (result, *rl.autograd.grad(result, given, g))
                for one, other in zip(found, wanted, strict=True):
                    assert_same_bits(one.detach(), other.detach())
        finally:
            rl.set_num_threads(before)


def gradients(function: Callable[..., Any], given: list[Any], g: Any) -> tuple[Any, ...]:
    result = function(*given)
    return result, *rl.autograd.grad(result, given, g)


@pytest.mark.parametrize("batch", [(), (1,), (2, 3)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_dense_mask_has_the_bits_of_whole_products(batch: tuple[int, ...], kind: str):
    rng = np.random.default_rng(len(batch))
    q, k, v, g = (rl.from_numpy(rng.standard_normal((*batch, n, 16)).astype("float32")) for n in (300, 270, 270, 300))
    mask = rl.from_numpy(rng.standard_normal((300, 270)).astype("float32"))
    if kind == "bool":
        mask = (mask < 1.0).logical_or(rl.ones(300, 270, dtype=rl.bool).triu())
    scores = q @ k.mT * 0.25
    scores = rl.where(mask, scores, float("-inf")) if kind == "bool" else scores + mask
    weights = rl.softmax(scores, -1)
    slope = g @ v.mT
    slope = weights * (slope - (slope * weights).sum(-1, True))
    sums = slope.sum(tuple(range(len(batch)))) if batch else slope
    slope = rl.where(mask, slope, 0.0) if kind == "bool" else slope
    wanted = [weights @ v, slope @ (k * 0.25), slope.mT @ (q * 0.25), weights.mT @ g]
    given = [item.requires_grad_() for item in (q, k, v)]
    if kind == "float":
        wanted.append(sums)
        given.append(mask.requires_grad_())

    def attend(q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask if bias is None else bias)

    for function in (attend, rl.compile(attend)):
        for one, other in zip(gradients(function, given, g), wanted, strict=True):
            assert_same_bits(one.detach(), other.detach())


def test_heads_that_share_keys_have_the_bits_of_repeated_ones():
    rng = np.random.default_rng(0)
    shapes = [(2, 6, 300, 16), (2, 2, 300, 16), (2, 2, 300, 16), (2, 6, 300, 16)]
    q, k, v, g = (rl.from_numpy(rng.standard_normal(shape).astype("float32")) for shape in shapes)
    repeated = [item.repeat_interleave(3, 1) for item in (k, v)]
    *wanted, keys, values = whole(q, *repeated, g, causal=True)
    wanted += [item.reshape(2, 2, 3, 300, 16).sum(2) for item in (keys, values)]
    given = [item.requires_grad_() for item in (q, k, v)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    for function in (attend, rl.compile(attend)):
        for one, other in zip(gradients(function, given, g), wanted, strict=True):
            assert_same_bits(one.detach(), other.detach())
