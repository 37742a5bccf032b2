"""Calls on tiny tensors: they measure the overhead of a call, not its kernel."""

from __future__ import annotations

import numpy as np

from rushlight.bench.records import Case, Inputs, normal


def add(count: int) -> Case:
    """The sum of `count` tensors of four elements, from left to right."""
    return Case(
        f"add-{count}-tensors-of-4",
        "overhead",
        "add",
        lambda rng: {f"x{number}": normal(rng, 4) for number in range(count)},
        flops=4.0 * (count - 1),
        bytes=16.0 * (count + 1),
    )


def near_one(rng: np.random.Generator) -> Inputs:
    """Four numbers, and factors whose products neither vanish nor overflow."""
    return {"x": normal(rng, 4), "y": 1 + normal(rng, 4, scale=0.01), "slope": normal(rng, 4)}


RECORDED = Case(
    "add-recorded-of-4",
    "overhead",
    "recorded_add",
    lambda rng: {"x": normal(rng, 4), "y": normal(rng, 4)},
    flops=4.0,
    bytes=48.0,
    contestants=("rushlight-eager", "torch"),
)
CHAIN = Case(
    "gradient-of-50-products-of-4",
    "overhead",
    "chain_gradient",
    near_one,
    flops=400.0,
    bytes=4800.0,
    contestants=("rushlight-eager", "torch"),
)
OVERHEAD: tuple[Case, ...] = (add(2), add(10), RECORDED, CHAIN)
