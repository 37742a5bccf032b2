"""Rows and the sums of their columns in one kernel: gradients of norms, and programs that must not be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph import Graph
from rushlight.ir.plan import Plan
from rushlight.ir.target import Target
from rushlight.support import settings

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)


def layer_norm(x: Any, w: Any, b: Any, g: Any) -> Any:
    x, w, b = (tensor.detach().requires_grad_() for tensor in (x, w, b))
    return rl.autograd.grad(rl.nn.functional.layer_norm(x, x.shape[-1:], w, b), (x, w, b), g)


def rms_norm(x: Any, w: Any, b: Any, g: Any) -> Any:
    x, w = (tensor.detach().requires_grad_() for tensor in (x, w))
    return rl.autograd.grad(rl.nn.functional.rms_norm(x, x.shape[-1:], w), (x, w), g)


def centred(x: Any, w: Any, b: Any, g: Any) -> Any:
    """Rows without their means, whose new columns are summed too."""
    rows = x - (x * w).mean(-1, keepdim=True)
    return rows, (rows * g).sum((0, 1) if x.ndim > 2 else 0)


PROGRAMS = {function.__name__: function for function in (layer_norm, rms_norm, centred)}
by_program = pytest.mark.parametrize("name", list(PROGRAMS))


def operands(shape: tuple[int, ...], dtype: Any = rl.float32) -> list[Any]:
    random = np.random.default_rng(3)
    shapes = shape, shape[-1:], shape[-1:], shape
    return [rl.tensor(random.standard_normal(one).astype(np.float32)).to(dtype) for one in shapes]


def plan_of(graph: Graph) -> Plan:
    return run_passes(graph, TARGET, until="07-tiled.ir")


def readers(plan: Plan) -> int:
    """The launches that read the first input."""
    return len([launch for launch in plan.launches if plan.inputs[0] in launch.buffers])


@pytest.mark.row("7.3")
@by_program
@pytest.mark.parametrize("shape", [(4096, 33), (5000, 70), (8, 600, 40)])
def test_operands_of_many_rows_are_read_by_one_kernel(
    name: str, shape: tuple[int, ...], captured: Callable[..., Graph]
) -> None:
    graph = captured(PROGRAMS[name], *operands(shape), dynamic=False)
    assert readers(plan_of(graph)) == 1


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_few_rows_are_left_to_all_threads(name: str, captured: Callable[..., Graph]) -> None:
    graph = captured(PROGRAMS[name], *operands((1000, 33)), dynamic=False)
    assert readers(plan_of(graph)) == 2


def without_it(function: Callable[..., Any], tensors: list[Any]) -> Any:
    with settings.override(without=("row_sums",)):
        return rl.compile(lambda *args: function(*args), dynamic=False)(*tensors)


@pytest.mark.generated("shape")
@by_program
@pytest.mark.parametrize("shape", [(4096, 1), (4096, 64), (4097, 5), (4351, 33), (5000, 70), (3, 1500, 17)])
def test_the_bits_are_those_of_two_kernels(name: str, shape: tuple[int, ...], threads: int) -> None:
    function, tensors = PROGRAMS[name], operands(shape)
    tensors[0][..., 0] = float("nan") if shape[-1] == 70 else -0.0
    found = rl.compile(function, dynamic=False)(*tensors)
    for one, other, eager in zip(found, without_it(function, tensors), function(*tensors), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes() == eager.numpy().tobytes()


@pytest.mark.parametrize("dtype", [rl.float64, rl.bfloat16])
@by_program
def test_other_dtypes_have_the_bits_of_eager_code(name: str, dtype: rl.dtype) -> None:
    function, tensors = PROGRAMS[name], operands((4100, 24), dtype)
    for one, eager in zip(rl.compile(function, dynamic=False)(*tensors), function(*tensors), strict=True):
        assert rl.equal(one, eager) and one.dtype is eager.dtype


APART: dict[str, Callable[[Any, Any], Any]] = {
    "other rows": lambda x, y: ((x * y).sum(-1), (x * (x * y).sum(-1).flip(0)[:, None]).sum(0)),
    "the next row": lambda x, y: ((x * y).sum(-1), (x * (x * y).sum(-1).roll(1)[:, None]).sum(0)),
    "transposed rows": lambda x, y: (x - x.mean(-1, keepdim=True), (x.reshape(-1, 4096).T * y).sum(0)),
    "every second row": lambda x, y: (x - x.mean(-1, keepdim=True), (x * y)[::2].sum(0)),
    "another order": lambda x, y: (x - x.mean(-1, keepdim=True), (x.flip(0) * y).sum(0)),
    "a product of columns": lambda x, y: (x - x.mean(-1, keepdim=True), (1 + x * y * 1e-6).prod(0)),
    "the largest": lambda x, y: (x - x.mean(-1, keepdim=True), (x * y).amax(0)),
}


# Rows behind a condition: the row before may be another thread's.
SHIFTED: dict[str, Callable[[Any], Any]] = {
    "the row before, or 0": lambda rows: rl.nn.functional.pad(rows, (0, 0, 1, -1)),
    "the row after, or 0": lambda rows: rl.nn.functional.pad(rows, (0, 0, -1, 1)),
    "the row before, or one of zeros": lambda rows: rl.cat([rl.zeros(1, rows.shape[1]), rows[:-1]]),
}


@pytest.mark.parametrize("name", list(SHIFTED))
def test_sums_of_other_rows_follow_all_rows(name: str, captured: Callable[..., Graph], threads: int) -> None:
    def step(x: Any) -> Any:
        rows = x.softmax(1)
        return rows, (SHIFTED[name](rows) * x).sum(0)

    x = operands((4097, 33))[0]
    assert readers(plan_of(captured(step, x, dynamic=False))) == 2
    for one, eager in zip(rl.compile(step, dynamic=False)(x), step(x), strict=True):
        assert one.numpy().tobytes() == eager.numpy().tobytes()


@pytest.mark.parametrize("name", list(APART))
def test_what_must_not_be_mixed_has_the_bits_of_eager_code(name: str) -> None:
    x, _, _, y = operands((4096, 24))
    function = APART[name]
    for one, eager in zip(rl.compile(function, dynamic=False)(x, y), function(x, y), strict=True):
        assert one.numpy().tobytes() == eager.numpy().tobytes()


def test_rows_that_are_written_in_place_keep_their_values() -> None:
    def step(x: Any, y: Any) -> Any:
        total = (x * y).sum(0)
        x.sub_(x.mean(-1, keepdim=True))
        return total, (x * y).sum(0)

    x, _, _, y = operands((4096, 24))
    mine, other = x.clone(), x.clone()
    for one, eager in zip(rl.compile(step, dynamic=False)(mine, y), step(other, y), strict=True):
        assert one.numpy().tobytes() == eager.numpy().tobytes()
    assert rl.equal(mine, other)
