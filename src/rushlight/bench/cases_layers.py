"""Recurrent layers, called eagerly, forward and backward, and transforms of functions, compiled."""

from __future__ import annotations

import numpy as np

from rushlight.bench.records import Case, Inputs, moved, normal

GATES = {"lstm": 4, "gru": 3}


def recurrent(kind: str, steps: int, batch: int, width: int) -> Case:
    """A layer as wide as its inputs: its outputs, and the gradients of its inputs and weights."""
    rows = GATES[kind] * width

    def make(rng: np.random.Generator) -> Inputs:
        scale = width**-0.5
        return {
            "x": normal(rng, steps, batch, width),
            "w_ih": normal(rng, rows, width, scale=scale),
            "w_hh": normal(rng, rows, width, scale=scale),
            "b_ih": normal(rng, rows, scale=scale),
            "b_hh": normal(rng, rows, scale=scale),
            "slope": normal(rng, steps, batch, width),
        }

    return Case(
        f"layers/{kind}-{steps}x{batch}x{width}",
        "layers",
        kind,
        make,
        flops=3 * 2 * 2.0 * steps * batch * rows * width,  # two products forward, four backward
        bytes=moved(*[(steps, batch, width)] * 4, *[(rows, width)] * 4),
        contestants=("rushlight-eager", "torch"),
    )


def transform(name: str, rows: int, columns: int, points: int, work: float) -> Case:
    """A transform of a layer of rows times columns at some points; `work` operations for each weight."""

    def make(rng: np.random.Generator) -> Inputs:
        return {
            "w": normal(rng, rows, columns, scale=columns**-0.5),
            "x": normal(rng, points, columns) if points > 1 else normal(rng, columns),
        }

    return Case(
        f"transforms/{name}",
        "layers",
        name,
        make,
        flops=work * rows * columns,
        bytes=moved((rows, columns), (points, columns)),
        contestants=("rushlight", "torch.compile"),
    )


LAYERS: tuple[Case, ...] = (
    recurrent("lstm", 50, 32, 256),
    recurrent("gru", 50, 32, 256),
    transform("vmap", 512, 512, 512, 2.0 * 512),
    transform("jacrev", 512, 512, 1, 3.0),
    transform("hessian", 512, 512, 1, 2.0 * 512),
)
