"""A decoder: the demo's GPT over bytes with two layers."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight.bench.models.record import Extent, SmallModel
from rushlight.demo.model import GPT, VOCABULARY

CONTEXT = 512


def inputs(batch: int, length: int, seed: int = 0) -> tuple[rl.Tensor, ...]:
    """Bytes, [batch, length]."""
    rng = np.random.default_rng(seed)
    return (rl.from_numpy(rng.integers(0, VOCABULARY, (batch, length))),)


MODEL = SmallModel(
    "gpt",
    lambda: GPT(layers=2, heads=4, width=128, context=CONTEXT),
    inputs,
    (("batch", "length"),),
    {"batch": Extent(1), "length": Extent(1, CONTEXT)},
)
