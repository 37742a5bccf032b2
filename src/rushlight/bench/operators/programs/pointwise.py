"""Each element by itself, or with its neighbour."""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as rl
from rushlight.bench.operators.record import Benchmark, elements
from rushlight.bench.programs.numpy_ops import gelu
from rushlight.bench.records import Array, normal

F = rl.nn.functional
DROPPED = 0.25
MASK = 0xFFFFFFFF
SEED = 7


def hashed(places: Any) -> Any:
    """32 mixed bits for each place: a hash in place of random numbers that memory would have to hold."""
    bits = ((places + SEED) * 0x9E3779B1) & MASK
    bits = ((bits ^ (bits >> 16)) * 0x85EBCA6B) & MASK
    return bits ^ (bits >> 13)


def dropout_reference(x: Array) -> Array:
    """Elements whose hash is low are dropped."""
    kept = hashed(np.arange(x.size, dtype=np.int64)) >= DROPPED * 2**32
    return np.where(kept, x / (1 - DROPPED), 0.0)


def dropout(x: rl.Tensor) -> rl.Tensor:
    """No mask is stored: its bits are computed again where they are needed."""
    kept = hashed(rl.arange(x.shape[0])) >= DROPPED * 2**32
    return rl.where(kept, x / (1 - DROPPED), 0.0)


def swiglu_reference(gate: Array, up: Array) -> Array:
    """silu(gate) * up."""
    return gate / (1 + np.exp(-gate)) * up


def halves(x: Any) -> tuple[Any, Any]:
    """The two halves of the last dim."""
    middle = x.shape[-1] // 2
    return x[..., :middle], x[..., middle:]


def rope_reference(x: Array, cos: Array, sin: Array) -> Array:
    """Pairs of the two halves, turned by the angle of their position."""
    left, right = halves(x)
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


def rope(x: rl.Tensor, cos: rl.Tensor, sin: rl.Tensor) -> rl.Tensor:
    """Pairs of the two halves, turned by the angle of their position."""
    left, right = halves(x)
    return rl.cat([left * cos - right * sin, right * cos + left * sin], -1)


def angles(length: int, width: int) -> tuple[Array, Array]:
    """Cosines and sines of the angles, for each position and pair."""
    turned = np.arange(length)[:, None] * 10000.0 ** (-np.arange(width // 2) / (width // 2))
    return np.cos(turned).astype(np.float32), np.sin(turned).astype(np.float32)


def adamw(x: Any, g: Any, m: Any, v: Any) -> Any:
    """A step of AdamW on one tensor, the tenth: the new weights and moments."""
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    step = (m / (1 - 0.9**10)) / ((v / (1 - 0.999**10)) ** 0.5 + 1e-8)
    return x * (1 - 1e-3 * 0.01) - 1e-3 * step, m, v


BENCHMARKS = (
    Benchmark(
        "vector_add",
        "the sum of two vectors",
        ("n",),
        {"small": [(1,), (37,)], "default": [(1 << 16,), (1 << 20,), (1 << 24,)]},
        elements,
        lambda rng, n: {"x": normal(rng, n), "y": normal(rng, n)},
        lambda x, y: x + y,
        lambda x, y: x + y,
        ("x", "y"),
    ),
    Benchmark(
        "vector_exp",
        "exp of a vector",
        ("n",),
        {"small": [(1,), (37,)], "default": [(1 << 16,), (1 << 20,), (1 << 24,)]},
        lambda n: 10.0 * n,
        lambda rng, n: {"x": normal(rng, n)},
        np.exp,
        lambda x: x.exp(),
        ("x",),
    ),
    Benchmark(
        "low_mem_dropout",
        "dropout by a hash of the place",
        ("n",),
        {"small": [(1,), (37,)], "default": [(1 << 20,), (1 << 24,)]},
        lambda n: 10.0 * n,
        lambda rng, n: {"x": normal(rng, n)},
        dropout_reference,
        dropout,
        ("x",),
    ),
    Benchmark(
        "swiglu",
        "silu of a gate by what it lets through",
        ("rows", "columns"),
        {"small": [(3, 5)], "default": [(1024, 4096), (4096, 11008)], "llm": [(1, 14336), (512, 14336)]},
        lambda m, n: 6.0 * m * n,
        lambda rng, m, n: {"gate": normal(rng, m, n), "up": normal(rng, m, n)},
        swiglu_reference,
        lambda gate, up: F.silu(gate) * up,
        ("gate", "up"),
    ),
    Benchmark(
        "geglu",
        "gelu of a gate by what it lets through",
        ("rows", "columns"),
        {"small": [(3, 5)], "default": [(512, 4096), (2048, 4096)]},
        lambda m, n: 12.0 * m * n,
        lambda rng, m, n: {"gate": normal(rng, m, n), "up": normal(rng, m, n)},
        lambda gate, up: gelu(gate) * up,
        lambda gate, up: F.gelu(gate) * up,
        ("gate", "up"),
    ),
    Benchmark(
        "rope",
        "rotary embedding of heads",
        ("heads", "length", "width"),
        {"small": [(2, 5, 4)], "default": [(16, 2048, 128)], "llm": [(32, 1, 128), (32, 4096, 128)]},
        lambda h, t, d: 3.0 * h * t * d,
        lambda rng, h, t, d: {"x": normal(rng, h, t, d), **dict(zip(("cos", "sin"), angles(t, d), strict=True))},
        rope_reference,
        rope,
        ("x",),
    ),
    Benchmark(
        "adamw",
        "a step of AdamW",
        ("n",),
        {"small": [(37,)], "default": [(1 << 20,), (1 << 24,)]},
        lambda n: 16.0 * n,
        lambda rng, n: {
            **{name: normal(rng, n) for name in ("x", "g", "m")},
            "v": rng.uniform(0.1, 1.0, n).astype(np.float32),
        },
        adamw,
        adamw,
    ),
    Benchmark(
        "launch_latency",
        "a call with next to nothing to do",
        ("n",),
        {"small": [(4,)], "default": [(4,)]},
        elements,
        lambda rng, n: {"x": normal(rng, n)},
        lambda x: x + 1,
        lambda x: x + 1,
    ),
    Benchmark(
        "gelu_chain",
        "gelu(x * w + b) + residual",
        ("rows", "columns"),
        {"small": [(3, 5)], "default": [(1024, 4096), (4096, 4096)]},
        lambda m, n: 8.0 * m * n,
        lambda rng, m, n: {
            "x": normal(rng, m, n),
            "w": normal(rng, n),
            "b": normal(rng, n),
            "residual": normal(rng, m, n),
        },
        lambda x, w, b, residual: gelu(x * w + b) + residual,
        lambda x, w, b, residual: F.gelu(x * w + b) + residual,
        ("x", "w", "b", "residual"),
    ),
    Benchmark(
        "softplus_mish",
        "x * tanh(log(1 + exp(x)))",
        ("n",),
        {"small": [(37,)], "default": [(1 << 20,), (1 << 22,)]},
        lambda n: 30.0 * n,
        lambda rng, n: {"x": normal(rng, n)},
        lambda x: x * np.tanh(np.log1p(np.exp(x))),
        F.mish,
        ("x",),
    ),
)
