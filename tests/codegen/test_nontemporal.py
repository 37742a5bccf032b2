"""Stores past the caches write what ordinary stores write, wherever rows begin and end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.codegen.kernel_oracle import buffer, compile_kernel, kernel, loop, parallel, run, targets, vector

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.codegen.llvm import CodeTarget, emit_kernel
from rushlight.ir.dtype import DType, bfloat16, float32, float64, int8
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel import Kernel, Store
from rushlight.ir.kernel_text import plan_text
from rushlight.ir.scalar import load
from rushlight.ir.target import Target
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS
from rushlight.sym import axis_symbol, size_of_code

SKYLAKE = CodeTarget("x86_64", 64)
PAST = "!nontemporal"


def doubled_rows(dtype: DType = float32, start: int = 0) -> Kernel:
    """out[i, j + start] = x[i, j] twice, for rows of n; `start` shifts where rows begin."""
    m, n = size_of_code("m"), size_of_code("n")
    i, j = axis_symbol(m, "i"), axis_symbol(n, "j")
    x, out = buffer("x", dtype), buffer("out", dtype)
    at = i * n + j
    value = load(x, at)
    made = kernel(parallel(i, vector(j, Store(out, at + start, value if dtype is bfloat16 else value + value))))
    return replace(made, unread=(out,))


def both_ways(k: Kernel, monkeypatch: pytest.MonkeyPatch, **sizes: int) -> list[np.ndarray[Any, Any]]:
    """What a kernel writes with every result taken for large, then with none; on every target, in 1 and 3 shares."""
    dtype = k.buffers[0].type.dtype.numpy
    count = sizes["m"] * sizes["n"]
    x = np.random.default_rng(5).integers(-50, 50, count).astype(dtype)
    named = {symbol: sizes[str(symbol).strip("`")] for symbol in k.sizes}
    found: list[np.ndarray[Any, Any]] = []
    for least in (0, 1 << 40):
        monkeypatch.setattr(Target, "NONTEMPORAL_BYTES", least)
        compile_kernel.cache_clear()
        for width in targets():
            for shares in (1, 3):
                arrays = {k.buffers[0]: x, k.buffers[1]: np.zeros(count + 64, dtype)}
                found.append(run(k, arrays, named, width, shares)[k.buffers[1]].view(np.uint8))
    compile_kernel.cache_clear()
    return found


@pytest.mark.generated("dtype")
@pytest.mark.parametrize("start", [0, 1, 16])
@pytest.mark.parametrize("dtype", [float32, float64, int8, bfloat16])
@pytest.mark.parametrize("shape", [(0, 64), (3, 0), (1, 1), (5, 64), (7, 256), (4, 320), (9, 67), (2, 1000)])
def test_both_ways_write_the_same(shape: tuple[int, int], dtype: DType, start: int, monkeypatch: pytest.MonkeyPatch):
    first, *others = both_ways(doubled_rows(dtype, start), monkeypatch, m=shape[0], n=shape[1])
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_only_unread_buffers_stored_once_are_written_past_the_caches():
    k = doubled_rows()
    assert emit_kernel(k, SKYLAKE, "f").count(PAST) == 1
    assert emit_kernel(k, SKYLAKE, "f").count("sfence") == 1
    assert PAST not in emit_kernel(replace(k, unread=()), SKYLAKE, "f")
    assert PAST not in emit_kernel(k, CodeTarget("aarch64", 16), "f")
    turns = axis_symbol(3, "t")
    (rows,) = k.body
    assert PAST not in emit_kernel(replace(k, body=(loop(turns, rows), rows)), SKYLAKE, "f")


PROGRAM = """\
g(%x: f32[s0, s1]) {
  size s0 = 64
  size s1 = 128
BODY
}"""


def plan_of(body: str) -> str:
    graph = parse_graph(PROGRAM.replace("BODY", body), OPERATORS)
    target = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
    return plan_text(run_passes(graph, target, until="07-tiled.ir"))


def kernel_text(body: str) -> str:
    graph = parse_graph(PROGRAM.replace("BODY", body), OPERATORS)
    target = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
    (k,) = run_passes(graph, target, until="07-tiled.ir").kernels
    return emit_kernel(k, SKYLAKE, "f")


def test_a_plan_marks_results_that_it_does_not_read():
    assert plan_of("  %0 = exp(%x) : f32[s0, s1]\n  return %0").count("unread") == 1
    shared = "  %0 = exp(%x) : f32[s0, s1]\n  %1 = sum(%0) {dim=[0], keepdim=false} : f32[s1]\n  return %0, %1"
    head = plan_of(shared).splitlines()[1]
    assert head.startswith("kernel(")
    assert "unread" not in head


LARGE = (2900, 2897)  # 33.6 MB: an odd number of elements, rows that begin anywhere
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: F.gelu(x * 2.0 + 1.0) + x,
    "half": lambda x: rl.cat([x, x]).bfloat16(),
    "mask": lambda x: rl.cat([x, x, x, x]) > 0.5,
    "turned": lambda x: (x + 1.0).T.contiguous(),
    "rms_norm": lambda x: F.rms_norm(x, (x.shape[-1],)),
    "layer_norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "softmax": lambda x: rl.softmax(x, -1),
    "two": lambda x: x.exp() + rl.flip(x, (0,)),
}


@pytest.mark.generated("name")
@pytest.mark.parametrize("columns", [LARGE[1], 4096])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_large_results_have_the_bits_of_small_ones(name: str, columns: int):
    function = FUNCTIONS[name]
    x = rl.rand(LARGE[0], columns, generator=rl.Generator().manual_seed(3))
    compiled = rl.compile(function)
    found = compiled(x)
    assert rl.equal(found, function(x))
    if name in ("rms_norm", "layer_norm", "softmax", "pointwise"):
        for first in (0, 1, 1450, 2800):
            assert rl.equal(found[first : first + 100], compiled(x[first : first + 100].clone()))


@pytest.mark.generated("shape")
@pytest.mark.parametrize("shape", [(260, 33_000), (3, 5, 600, 1001), (1, 1 << 23), (700_001, 12)])
@pytest.mark.parametrize("function", [rl.softmax, lambda x, dim: rl.softmax(x.double(), dim)], ids=["f32", "f64"])
def test_rows_of_any_length_may_wait(shape: tuple[int, ...], function: Callable[..., Any]):
    x = rl.rand(*shape, generator=rl.Generator().manual_seed(4)) * 8.0
    compiled = rl.compile(lambda x: function(x, -1))
    found = compiled(x)
    assert rl.equal(found, function(x, -1))
    rows, sums = x.view(-1, shape[-1]), found.sum(-1).numpy()
    for first in (0, rows.shape[0] // 2):
        part = rows[first : first + 9].clone()
        assert rl.equal(found.view(-1, shape[-1])[first : first + 9], compiled(part))
    np.testing.assert_allclose(sums, np.ones_like(sums), rtol=1e-5)


def test_rows_wait_in_memory_of_the_kernel():
    body = "  %0 = softmax(%x) {dim=1} : f32[s0, s1]\n  return %0"
    assert plan_of(body).count("unread") == 1
    text = kernel_text(body)
    assert text.count(f"alloca i8, i64 {Target.NEAR_CACHE_BYTES}") == 1
    assert PAST in text
    assert kernel_text("  %0 = exp(%x) : f32[s0, s1]\n  return %0").count("alloca") == 0


def test_large_results_in_views_and_in_place():
    rows, columns = LARGE
    x = rl.rand(rows, columns)
    wanted = (x * 3.0).numpy()
    memory = rl.zeros(rows * columns + 40)
    for start in (0, 1, 16, 39):
        target = memory[start : start + rows * columns].view(rows, columns)
        assert rl.mul(x, 3.0, out=target) is target
        np.testing.assert_array_equal(target.numpy(), wanted)
    memory.zero_()
    wide = rl.zeros(rows, columns + 15)
    rl.mul(x, 3.0, out=wide[:, 7 : 7 + columns])
    np.testing.assert_array_equal(wide[:, 7 : 7 + columns].numpy(), wanted)
    assert not wide[:, :7].numpy().any()
    assert not wide[:, 7 + columns :].numpy().any()
    x.mul_(3.0)
    np.testing.assert_array_equal(x.numpy(), wanted)
    base = rl.rand(rows * columns + 1)
    shifted = base.numpy()[:-1] + np.float32(1)
    rl.add(base[:-1], 1.0, out=base[1:])
    np.testing.assert_array_equal(base[1:].numpy(), shifted)


@pytest.mark.parametrize("shape", [(5, 7), (300, 130), (2900, 2896)])
def test_softmax_in_the_place_of_its_argument(shape: tuple[int, int]):
    x = rl.rand(*shape)
    wanted = rl.softmax(x, -1)
    again = x.clone()

    @rl.compile
    def overwrite(x: Any) -> None:
        x.copy_(rl.softmax(x, -1))

    overwrite(again)
    assert rl.equal(again, wanted)
