"""flint: a small device. It has memory of its own and ten kernels; what it lacks it leaves to the CPU.

Its memory is numpy arrays by number. An address has such a number in its upper bits and a place in the lower ones, so
that no address of flint's is one of the host's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rushlight as rl

Array = NDArray[Any]
Regions = Sequence[rl.backends.Region]
_SHIFT = 48  # more bits than a place in one array needs
_FIRST = 1 << 13


class Flint(rl.backends.Backend):
    """A device that computes call by call."""

    name = "flint"
    copies = True

    def __init__(self) -> None:
        self._arrays: dict[int, NDArray[np.uint8]] = {}
        self._next = _FIRST
        self.kernels = MappingProxyType(
            {
                "add": self._pointwise(lambda a, b, alpha: a + b if alpha is None else a + b * alpha),
                "sub": self._pointwise(lambda a, b, alpha: a - b if alpha is None else a - b * alpha),
                "mul": self._pointwise(lambda a, b: a * b),
                "neg": self._pointwise(lambda a: -a),
                "clone": self._pointwise(lambda a: a),
                "relu": self._pointwise(lambda a: np.where(a > 0, a, a * 0)),
                "full": self._full,
                "ones": lambda results, operands, attrs: self._full(results, (1,), attrs),
                "zeros": lambda results, operands, attrs: self._full(results, (0,), attrs),
                "matmul": self._matmul,
            }
        )

    # Memory.

    def allocate(self, nbytes: int) -> int | None:
        """Return the address of a new array."""
        number = self._next
        self._next += 1
        self._arrays[number] = np.empty(nbytes, np.uint8)
        return number << _SHIFT

    def free(self, address: int) -> None:
        """Drop an array."""
        del self._arrays[address >> _SHIFT]

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the host."""
        self._at(address, data.size)[:] = data

    def read(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes to the host."""
        data[:] = self._at(address, data.size)

    def copy(self, target: rl.backends.Region, source: rl.backends.Region) -> None:
        """Copy within the memory."""
        self._shown(target)[...] = np.array(self._shown(source))

    def _at(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        array, start = self._arrays.get(address >> _SHIFT), address & ((1 << _SHIFT) - 1)
        if array is None or start + nbytes > array.size:
            raise rl.DeviceError("V006", f"flint: there are no {nbytes} bytes at {address:#x}")
        return array[start : start + nbytes]

    def _shown(self, region: rl.backends.Region) -> Array:
        return region.shown(self._at(region.address, region.nbytes))

    # Kernels. Each declines what numpy would compute in other bits than Rushlight promises.

    def _value(self, operand: Any, number: Callable[[Any], Any]) -> Any:
        return self._shown(operand) if isinstance(operand, rl.backends.Region) else number(operand)

    def _pointwise(self, compute: Callable[..., Array]) -> rl.backends.Kernel:
        def kernel(results: Regions, operands: Sequence[object], attrs: Mapping[str, Any]) -> object:
            tensors = [one for one in operands if isinstance(one, rl.backends.Region)]
            if any(one.dtype is not results[0].dtype or one.dtype.is_storage_only for one in tensors):
                return NotImplemented
            if results[0].dtype in (rl.bool, rl.float16, rl.bfloat16) or results[0].dtype.is_complex:
                return NotImplemented
            number = results[0].dtype.numpy.type
            with np.errstate(all="ignore"):
                values = [None if one is None else self._value(one, number) for one in operands]
                self._shown(results[0])[...] = compute(*values)
            return None

        return kernel

    def _full(self, results: Regions, operands: Sequence[Any], attrs: Mapping[str, Any]) -> object:
        self._shown(results[0])[...] = operands[0]
        return None

    def _matmul(self, results: Regions, operands: Sequence[Any], attrs: Mapping[str, Any]) -> object:
        """Products of whole numbers alone: those of floats are sums in an order that numpy does not promise."""
        a, b = operands
        if not a.dtype.is_integer or a.dtype is not b.dtype or len(a.shape) != 2 or len(b.shape) != 2:
            return NotImplemented
        self._shown(results[0])[...] = self._shown(a) @ self._shown(b)
        return None
