"""Products as their order defines them, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.ir.dtype import bfloat16
from rushlight.ir.gemm_tile import narrow_products
from rushlight.ir.interpret import fold_products, multiply_add
from rushlight.ir.scalar import BLOCKED
from rushlight.runtime import llvm


def product_of_order(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The product as the order defines it, in numpy."""
    with np.errstate(all="ignore"):
        if a.dtype != bfloat16.numpy:
            left, right = np.broadcast_arrays(a[:, None, :], b.T[None, :, :])
            return fold_products(left, right, BLOCKED)
        wide = a.astype(np.float32), b.astype(np.float32)
        pairs = "bfloat16" in narrow_products(llvm.host_target())
        return (product_of_pairs(*wide) if pairs else product_of_order(*wide)).astype(bfloat16.numpy)


def product_of_pairs(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The product as an instruction for pairs of bfloat16 defines it: the odd element first, no denormal numbers."""
    if a.shape[1] % 2:
        a, b = np.pad(a, ((0, 0), (0, 1))), np.pad(b, ((0, 1), (0, 0)))
    a, b = without_denormals(a), without_denormals(b)
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for start in range(0, a.shape[1], 256):
        chain = np.zeros_like(total)
        for k in range(start, min(start + 256, a.shape[1])):
            step = k ^ 1
            chain = without_denormals(multiply_add(a[:, step : step + 1], b[step], chain))
        total = total + chain if start else chain
    return total


def without_denormals(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def assert_same_bits(got: Any, wanted: np.ndarray[Any, Any]) -> None:
    found = got.numpy()
    words = np.dtype(f"u{found.dtype.itemsize}")
    same = (np.ascontiguousarray(found).view(words) == np.ascontiguousarray(wanted).view(words)) | (
        np.isnan(found) & np.isnan(wanted)
    )
    assert same.all(), f"{(~same).sum()} of {same.size} differ, first at {np.argwhere(~same)[0]}"


def numpy_dtype(name: str) -> np.dtype[Any]:
    return bfloat16.numpy if name == "bfloat16" else np.dtype(name)
