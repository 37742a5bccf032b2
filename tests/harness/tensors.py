"""Data for tests, and whether two results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as rl


def data(*shape: int) -> Any:
    """Normal float32 numbers, the same ones for the same shape."""
    return rl.tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def same(found: Any, wanted: Any) -> bool:
    """Whether two results, or structures of them, have the same types, dtypes, shapes and bits."""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, (tuple, list)):
        return type(found) is type(wanted) and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, rl.Tensor):
        one, other = found.detach().numpy(), wanted.detach().numpy()
        return found.dtype is wanted.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return type(found) is type(wanted) and found == wanted
