"""Variants in the tile language: the library's kernels for operators that have one.

They are looked up when they run: a peer's interpreter imports this text, and has no such kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rushlight as rl
from rushlight.bench.operators.programs.losses import BETA
from rushlight.bench.operators.programs.normalizations import EPSILON
from rushlight.bench.operators.record import Benchmark, Function

NAME = "tile"
TILED: dict[str, Function] = {
    "fused_linear_cross_entropy": lambda x, w, targets: _kernels().linear_cross_entropy(x, w, targets),
    "fused_linear_jsd": lambda x, w, y, v: _kernels().linear_jsd(x, w, y, v, beta=BETA),
    "jsd": lambda x, y: _kernels().jsd(x, y, beta=BETA),
    "kl_div": lambda x, y: _kernels().kl(x, y, log_target=True),
    "rms_norm": lambda x, w: _kernels().rms_norm(x, w, EPSILON),
    "swiglu": lambda gate, up: _kernels().swiglu(gate, up),
}


def register(benchmarks: Mapping[str, Benchmark]) -> None:
    """Adds the variants to their operators."""
    for name, function in TILED.items():
        benchmarks[name].variant(NAME)(function)


def _kernels() -> Any:
    return rl.nn.kernels
