"""Row blocks: chains of products and row kernels that run a head, or some rows, at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.outline import plan_outline
from rushlight.ir.plan import THREADS, Plan, RowBlockKernel
from rushlight.ir.target import Target
from rushlight.ops.record import OPERATORS
from rushlight.sym import Size, substitute

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)

ATTENTION = """\
g(%q: f32[s0, s1, s2, 64], %k: f32[s0, s1, s3, 64], %v: f32[s0, s1, s3, 64]) {
  size s0 = 2
  size s1 = 12
  size s2 = 1024
  size s3 = 1024
  %0 = transpose(%k) {dim0=-2, dim1=-1} : f32[s0, s1, 64, s3] strides [s1*s3*64, s3*64, 1, 64]
  %1 = matmul(%q, %0) : f32[s0, s1, s2, s3]
  %2 = softmax(%1) {dim=-1} : f32[s0, s1, s2, s3]
  %3 = matmul(%2, %v) : f32[s0, s1, s2, 64]
  return RESULTS
}"""


def planned(results: str) -> Plan:
    """The plan of attention that returns some of its values."""
    return run_passes(parse_graph(ATTENTION.replace("RESULTS", results), OPERATORS), TARGET, until="07-tiled.ir")


def arena_bytes(plan: Plan, heads: int, tokens: int) -> int:
    """The arena of two threads, for a number of heads of as many queries as keys."""
    sizes: dict[Any, Size] = {THREADS: 2}
    for source in plan.symbols:
        sizes[source.symbol] = (1, heads, tokens)[min(source.dim, 2)]
    (slot,) = plan.slots
    found = substitute(slot.size_bytes, sizes)
    assert isinstance(found, int)
    return found


def test_attention_is_one_launch_of_row_blocks(golden: Callable[[str, str], None]):
    golden("attention.txt", f"{ATTENTION.replace('RESULTS', '%3')}\n\n{plan_outline(planned('%3'))}")


def test_scores_are_never_there_as_a_whole():
    plan = planned("%3")
    assert arena_bytes(plan, 64, 8192) < 64 * 8192 * 8192 * 4 // 500
    assert arena_bytes(plan, 64, 8192) == arena_bytes(plan, 4, 8192), "the scratch memory is that of the threads"
    assert arena_bytes(plan, 1, 8) == 2 * 8 * 8 * 4, "scores and weights of the only row block"


def test_a_value_that_is_returned_is_no_private_one():
    plan = planned("%3, %2")
    (row_blocks,) = (kernel for kernel in plan.kernels if isinstance(kernel, RowBlockKernel))
    assert plan.outputs[1] in row_blocks.buffers
    assert len(row_blocks.launches) == 3


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q @ k.mT * 0.25
    scores = rl.where(mask, scores, float("-inf"))
    return rl.softmax(scores, -1) @ v


def arrays(batch: tuple[int, ...], rows: int, keys: int, width: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = [(*batch, size, width) for size in (rows, keys, keys)]
    return [rl.from_numpy(rng.standard_normal(shape).astype("float32")) for shape in shapes]


SHAPES = [
    ((2, 3), 40, 40, 8),
    ((1, 1), 1, 1, 1),
    ((3,), 300, 700, 16),
    ((2, 1), 0, 4, 4),
    ((0, 2), 5, 5, 4),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("batch", "rows", "keys", "width"), SHAPES)
def test_row_blocks_have_the_bits_of_values(batch: tuple[int, ...], rows: int, keys: int, width: int, threads: int):
    q, k, v = (item.requires_grad_() for item in arrays(batch, rows, keys, width, rows))
    mask = rl.from_numpy(np.tri(rows, keys, dtype=np.bool_))
    v.data[..., -1, 0] = float("inf")
    before = rl.get_num_threads()
    try:
        rl.set_num_threads(threads)
        compiled = rl.compile(attention)(q, k, v, mask)
        whole = attention(q, k, v, mask)
        tangent = rl.from_numpy(np.random.default_rng(1).standard_normal(tuple(whole.shape)).astype("float32"))
        found = [compiled, *rl.autograd.grad(compiled, (q, k, v), tangent)]
        wanted = [whole, *rl.autograd.grad(whole, (q, k, v), tangent)]
    finally:
        rl.set_num_threads(before)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


def test_operands_may_lie_anyhow():
    packed = rl.from_numpy(np.random.default_rng(0).standard_normal((2, 50, 3, 4, 8)).astype("float32"))

    def heads(x: Any) -> Any:
        q, k, v = x.permute(2, 0, 3, 1, 4)
        return rl.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 50, 32)

    def whole(x: Any) -> Any:
        q, k, v = (part.contiguous() for part in x.permute(2, 0, 3, 1, 4))
        scores = q @ k.mT * (1.0 / 8**0.5)
        scores = rl.where(rl.ones(50, 50, dtype=rl.bool).tril(), scores, float("-inf"))
        return (rl.softmax(scores, -1) @ v).transpose(1, 2).reshape(2, 50, 32)

    np.testing.assert_allclose(rl.compile(heads)(packed).numpy(), whole(packed).numpy(), rtol=2e-6, atol=1e-6)
    np.testing.assert_array_equal(rl.compile(heads)(packed).numpy(), heads(packed).numpy())


@pytest.fixture
def products_of_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs below have row blocks by their products, some of which have one step."""
    monkeypatch.setattr("rushlight.schedule.gemm.recognition._without_single_steps", lambda body: body)


@pytest.mark.usefixtures("products_of_one_step")
def test_a_row_block_reads_a_value_where_it_lies():
    """A value of the program may share an older one's memory: it is read there, not in a row block's scratch."""
    text = """\
g(%x: f32[s0, s1], %at: i64[1], %other: i64[1], %g: f32[1]) {
  size s0 = 2
  size s1 = 4
  %0 = full(0) {size=[`s0`], dtype=f32, device=device cpu -1} : f32[s0]
  %1 = scatter_add(%0, %at, %g) {dim=0} : f32[s0]
  %2 = scatter_add(%0, %other, %g) {dim=0} : f32[s0]
  %3 = add(%1, %2, none) : f32[s0]
  %4 = reshape(%3) {shape=[`s0`, 1, 1]} : f32[s0, 1, 1]
  %5 = reshape(%x) {shape=[`s0`, `s1`, 1]} : f32[s0, s1, 1]
  %6 = transpose(%5) {dim0=-2, dim1=-1} : f32[s0, 1, s1] strides [s1, 1, 1]
  %7 = matmul(%4, %6) : f32[s0, 1, s1]
  %8 = exp(%x) : f32[s0, s1]
  %9 = reshape(%8) {shape=[`s0`, 1, `s1`]} : f32[s0, 1, s1]
  %10 = transpose(%9) {dim0=-2, dim1=-1} : f32[s0, s1, 1] strides [s1, 1, s1]
  %11 = matmul(%10, %4) : f32[s0, s1, 1]
  %12 = reshape(%11) {shape=[`s0`, `s1`]} : f32[s0, s1]
  %13 = reshape(%7) {shape=[`s0`, `s1`]} : f32[s0, s1]
  %14 = add(%12, %13, none) : f32[s0, s1]
  return %14
}"""
    plan = run_passes(parse_graph(text, OPERATORS), TARGET, until="07-tiled.ir")
    (row_blocks,) = (kernel for kernel in plan.kernels if isinstance(kernel, RowBlockKernel))
    own = {buffer for buffer, _ in row_blocks.offsets}
    made = {
        buffer for launch in plan.launches for buffer in launch.buffers if plan.kernels[launch.kernel] is not row_blocks
    }
    assert not own & made
    assert {launch.buffers[0] for launch in row_blocks.launches} <= set(row_blocks.buffers)
