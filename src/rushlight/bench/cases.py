"""What is measured. The text is PyTorch's API: in a peer's process the name `rushlight` means the peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import rushlight as rl
from rushlight.demo.model import GPT
from rushlight.demo.training import make_optimizer, make_step

Work = Callable[[], Any]
ELEMENTS = 1 << 22
ROWS, COLUMNS = 4096, 1024
# The demo's model and batch.
LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 256, 128, 16


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure: what it computes and moves, and the function that prepares it.

    `bytes` counts each operand and result once. `repeat` calls make one sample.
    """

    name: str
    family: str
    flops: float
    bytes: float
    repeat: int
    prepare: Callable[[], Work]


def gemm(size: int) -> Case:
    """A square product of float32 matrices."""

    def prepare() -> Work:
        a, b = rl.rand(size, size), rl.rand(size, size)
        return lambda: a @ b

    return Case(f"gemm-{size}", "ops", 2.0 * size**3, 12.0 * size**2, 8 if size <= 1024 else 2, prepare)


def add() -> Case:
    """One pass over memory."""

    def prepare() -> Work:
        a, b = rl.rand(ELEMENTS), rl.rand(ELEMENTS)
        return lambda: a + b

    return Case("add-4M", "ops", float(ELEMENTS), 12.0 * ELEMENTS, 8, prepare)


def softmax() -> Case:
    """A reduction, and a pass with exponentials."""

    def prepare() -> Work:
        x = rl.rand(ROWS, COLUMNS)
        return lambda: rl.softmax(x, -1)

    return Case("softmax-4096x1024", "ops", 5.0 * ROWS * COLUMNS, 8.0 * ROWS * COLUMNS, 8, prepare)


def training_step() -> Case:
    """The demo's training step, compiled."""

    def prepare() -> Work:
        rl.manual_seed(0)
        model = GPT(LAYERS, HEADS, WIDTH, CONTEXT)
        optimizer = make_optimizer(model, 1e-3, 0.1)
        windows = rl.randint(0, 256, (BATCH, CONTEXT + 1))
        step = compiled_step(model, optimizer)
        return lambda: step(windows)

    matrices = LAYERS * 12 * WIDTH**2 + 256 * WIDTH
    parameters = matrices + CONTEXT * WIDTH
    flops = BATCH * CONTEXT * (6.0 * matrices + LAYERS * 12 * CONTEXT * WIDTH)
    # Weights are read twice and their gradients written and read; the optimizer reads and writes three arrays.
    return Case("demo-step", "models", flops, 4.0 * 10 * parameters, 1, prepare)


def compiled_step(model: Any, optimizer: Any) -> Callable[[Any], Any]:
    """The demo's step, compiled as a whole where that can be done; torch.compile takes the model alone."""
    if rl.__name__ == "rushlight":
        return rl.compile(make_step(model, optimizer))
    model.loss = rl.compile(model.loss)
    return make_step(model, optimizer)


CASES: dict[str, Case] = {case.name: case for case in (gemm(1024), gemm(2048), add(), softmax(), training_step())}
