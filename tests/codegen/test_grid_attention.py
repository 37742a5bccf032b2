"""Attention on grids: three launches are one, results are those of float64, and PTX has no spills."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import rushlight as rl
from ptx_assembler import assembled
from rushlight.build.pipeline import run_passes
from rushlight.ir.choice import GRID
from rushlight.ir.grid.matrix_unit import UNITS
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.plan import Plan
from rushlight.runtime import llvm
from rushlight.schedule.loops import unit_attention
from rushlight.sym import free_symbols

F = rl.nn.functional
Array = np.ndarray
Attend = Callable[..., rl.Tensor]


def softmax_of(q: Array, k: Array, v: Array, bias: Array | float = 0.0) -> Array:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def causal_bias(rows: int, keys: int) -> Array:
    return np.where(np.arange(keys) <= np.arange(rows)[:, None], 0.0, -np.inf)


def close(found: rl.Tensor, wanted: Array, v: Array, eps: float) -> None:
    """Within the rounding of weights and of the result, to the values' size."""
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(found.cpu().double().numpy(), wanted, rtol=eps, atol=eps * np.abs(v).max())


def drawn(*shape: int, dtype: rl.dtype = rl.bfloat16, seed: int = 0) -> rl.Tensor:
    return rl.randn(*shape, generator=rl.Generator().manual_seed(seed)).to(dtype)


def program_of(function: Attend, *inputs: rl.Tensor) -> rl.export.ExportedProgram:
    """A program of open rows and keys."""
    rows, keys = (rl.export.Dim(name, max=4096) for name in ("rows", "keys"))
    at = inputs[0].ndim - 2
    call = (lambda q, k, v: function(q, k, v)) if len(inputs) == 3 else function
    return rl.export.export(call, inputs, dynamic_shapes=({at: rows}, {at: keys}, {at: keys}))


def plan_of(function: Attend, *inputs: rl.Tensor, unit: str = "mma") -> Plan:
    blocks = replace(GRID, unit=UNITS[unit])
    return run_passes(program_of(function, *inputs).graph, llvm.host_target(), until="07-tiled.ir", blocks=blocks)


def compiled(function: Attend, *inputs: rl.Tensor) -> Attend:
    """A function compiled for the widths of some inputs, and any rows and keys."""
    shapes = [(*one.shape[:-2], -1, one.shape[-1]) for one in inputs]

    def fixed(*given: rl.Tensor) -> rl.Tensor:
        return function(*[one.reshape(shape) for one, shape in zip(given, shapes, strict=True)])

    return rl.compile(fixed)


def names(plan: Plan) -> list[str]:
    return [plan.kernels[launch.kernel].name for launch in plan.launches]


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of kernels of attention that are made from here on, none of which is cached."""
    made: list[str] = []
    before = unit_attention._kernel_of

    def noted(attention, unit, name):
        kernel = before(attention, unit, name)
        made.extend([] if kernel is None else [name])
        return kernel

    monkeypatch.setattr(unit_attention, "_kernel_of", noted)
    monkeypatch.setattr("simt.backend.Grids.key", lambda self, graph: None)
    return made


SHAPES = [(1, 9, 11, 16), (2, 70, 100, 64), (1, 1, 130, 40), (1, 64, 64, 128)]


@pytest.mark.generated("shape", "causal")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_is_that_of_float64(device: str, fused: list[str], shape: tuple[int, int, int, int], causal: bool):
    heads, rows, keys, width = shape
    q, k, v = (drawn(1, heads, size, width, seed=seed) for seed, size in enumerate((rows, keys, keys)))
    attend = compiled(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), q, k, v)
    found = attend(q.to(device), k.to(device), v.to(device))
    given = [one.double().numpy() for one in (q, k, v)]
    close(found, softmax_of(*given, causal_bias(rows, keys) if causal else 0.0), given[2], 2.0**-7)
    assert not rl.backends.fallbacks()
    assert fused


def test_tiles_without_any_key_and_rows_without_any(device: str, fused: list[str]):
    """Whole tiles of minus infinity leave sums alone; a row of them is no number, as on the CPU."""
    q, k, v = (drawn(1, 1, size, 32, dtype=rl.float16, seed=seed) for seed, size in enumerate((40, 150, 150)))
    bias = rl.zeros(40, 150, dtype=rl.float16)
    bias[3, :128], bias[4, 40:], bias[5, :] = float("-inf"), float("-inf"), float("-inf")
    attend = compiled(lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias), q, k, v, bias)
    found = attend(*[one.to(device) for one in (q, k, v, bias)]).cpu()
    assert fused
    assert found[0, 0, 5].isnan().all()
    given = [one.double().numpy() for one in (q, k, v)]
    kept = [row for row in range(40) if row != 5]
    wanted = softmax_of(given[0][:, :, kept], *given[1:], bias.double().numpy()[kept])
    close(found[:, :, kept], wanted, given[2], 2.0**-9)


def test_what_no_number_is_stays_in_its_row(device: str):
    q, k, v = (drawn(1, 1, size, 16, seed=seed) for seed, size in enumerate((20, 70, 70)))
    q[0, 0, 7, 3] = float("nan")
    attend = compiled(F.scaled_dot_product_attention, q, k, v)
    found = attend(*[one.to(device) for one in (q, k, v)]).cpu()
    assert found[0, 0].isnan().any(-1).nonzero().flatten().tolist() == [7]


def test_no_keys_and_no_rows(device: str):
    attend = compiled(F.scaled_dot_product_attention, *[drawn(1, 1, 2, 16) for _ in range(3)])
    for rows, keys in ((5, 0), (0, 5)):
        q, k = drawn(1, 1, rows, 16), drawn(1, 1, keys, 16)
        wanted = attend(q, k, k)
        np.testing.assert_array_equal(
            attend(*[one.to(device) for one in (q, k, k)]).cpu().float().numpy(), wanted.float().numpy()
        )


FOUND: dict[str, Attend] = {
    "plain": F.scaled_dot_product_attention,
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "a mask": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, attn_mask=(q.sum(-1, keepdim=True) > k.sum(-1)[..., None, :])
    ),
    "an epilogue": lambda q, k, v: F.scaled_dot_product_attention(q, k, v).mT.float() * 2,
}
APART: dict[str, Attend] = {
    "weights are a result": lambda q, k, v: ((w := (q @ k.mT).softmax(-1)), w @ v),
    "scores are a result": lambda q, k, v: ((s := q @ k.mT), s.softmax(-1) @ v),
    "not a softmax": lambda q, k, v: (q @ k.mT).relu() @ v,
    "normalised twice": lambda q, k, v: (q @ k.mT).softmax(-1).square() @ v,
}


@pytest.mark.parametrize("name", FOUND)
def test_an_attention_is_one_launch_without_memory_for_scores(name: str):
    q, k, v = drawn(2, 3, 33, 16), drawn(2, 3, 45, 16), drawn(2, 3, 45, 24)
    plan = plan_of(FOUND[name], q, k, v)
    found = [kernel for kernel in names(plan) if kernel.startswith("attention")]
    assert len(found) == 1
    assert all(len(free_symbols(slot.size_bytes)) < 2 for slot in plan.slots), "scores of rows and keys are in memory"


@pytest.mark.parametrize("name", APART)
def test_what_is_no_attention_or_is_seen_stays_apart(name: str):
    q, k, v = drawn(2, 33, 16), drawn(2, 45, 16), drawn(2, 45, 24)
    assert not any(kernel.startswith("attention") for kernel in names(plan_of(APART[name], q, k, v)))


def test_a_loop_whose_store_has_a_condition_stays_apart(device: str):
    def written(table: rl.Tensor, at: rl.Tensor, values: rl.Tensor) -> rl.Tensor:
        table = table.clone()
        table[at] = values
        return table

    given = drawn(9), rl.tensor([1, 4, 1]), drawn(3, seed=1)
    found = rl.compile(written)(*[one.to(device) for one in given]).cpu()
    assert found.tolist() == written(*given).tolist()
    assert not rl.backends.fallbacks()


@pytest.mark.parametrize(("dtype", "width"), [(rl.float32, 16), (rl.bfloat16, 200)], ids=["float32", "wide"])
def test_other_numbers_and_long_rows_stay_apart(dtype: rl.dtype, width: int):
    plan = plan_of(F.scaled_dot_product_attention, *[drawn(2, 3, 33, width, dtype=dtype) for _ in range(3)])
    assert not any(kernel.startswith("attention") for kernel in names(plan))


def test_the_schedule_walks_over_keys_once():
    plan = plan_of(FOUND["causal"], *[drawn(1, 2, 33, 16) for _ in range(3)])
    (kernel,) = plan.kernels
    lines = kernel_text(kernel).splitlines()
    words = [line.split()[0] for line in lines if line.split()[0] in ("block", "serial", "barrier")]
    assert words.count("block") == 1
    assert words.count("barrier") == 7
    assert len([line for line in lines if line.endswith("by mma")]) == 2


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100"])
@pytest.mark.parametrize("width", [64, 128])
def test_attention_assembles_without_spills(architecture: str, width: int):
    program = program_of(FOUND["causal"], *[drawn(1, 2, 33, width) for _ in range(3)])
    code = rl.export.ptx(program, architecture)
    assert len(code.entries) == 1
    assert ".local" not in code.text
    assert ("wgmma.mma_async" in code.text) is (architecture == "sm_90a" and width == 64)
    assert ("fence.proxy.async" in code.text) is ("wgmma.mma_async" in code.text)
    assembled(code, architecture)
