"""`torch.quasirandom`: Sobol's sequences, which SciPy computes."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, Self

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.support.errors import error, require

__all__ = ["SobolEngine"]


def _scipy() -> ModuleType:
    try:
        return import_module("scipy.stats.qmc")
    except ImportError as cause:
        raise error("N004", "SobolEngine: SciPy is not installed", hint="pip install scipy") from cause


class SobolEngine:
    """Points in a cube that fill it evenly; scrambled ones are drawn from a generator of SciPy's."""

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        require(
            0 < dimension <= self.MAXDIM,
            "A002",
            f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]",
            dimension=dimension,
        )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        if seed is None and scramble:
            seed = int(rl.randint(0, 1 << 31, ()).item())
        self._engine: Any = _scipy().Sobol(dimension, scramble=scramble, bits=self.MAXBIT, rng=seed)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: rl.dtype | None = None) -> Tensor:
        """Return the next points, one in each row; `out` is written instead where it is given."""
        # SciPy warns of a first draw whose number is no power of two, unless it is one point.
        parts = [n] if self.num_generated or n < 2 else [1, n - 1]
        rows = np.concatenate([self._engine.random(count) for count in parts])
        points: Tensor = rl.tensor(rows, dtype=dtype or rl.get_default_dtype())
        self.num_generated += n
        return points if out is None else out.resize_(points.shape).copy_(points)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: rl.dtype | None = None) -> Tensor:
        """Return the next 2^m points; A002 unless their number with those before is a power of two."""
        count = self.num_generated + (1 << m)
        even = count & (count - 1) == 0
        require(even, "A002", "draw_base2: n must be a power of 2 with the points before, or take draw()", n=count)
        return self.draw(1 << m, out, dtype)

    def reset(self) -> Self:
        """Start again at the first point."""
        self._engine.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Leave out points."""
        self._engine.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        scrambled = ", scramble=True" if self.scramble else ""
        return f"SobolEngine(dimension={self.dimension}{scrambled}{'' if self.seed is None else f', seed={self.seed}'})"
