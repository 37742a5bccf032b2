"""A subclass of Tensor for weights in int8: a byte for each element, and a float for each row.

    python examples/int8_weights.py

A linear layer multiplies by the bytes, and scales the rows of the result. Any other operator gets the weight as floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rushlight as rl
from rushlight import nn
from rushlight.overrides import _disabled_torch_function_impl
from rushlight.utils._python_dispatch import return_and_correct_aliasing
from rushlight.utils._pytree import tree_map

KEEPING = ("alias", "clone", "detach")  # operators after which a weight is still one of int8


class Int8Weight(rl.Tensor):
    """A matrix as `values * scales`: int8 of its sizes, and a column of floats."""

    values: rl.Tensor
    scales: rl.Tensor
    __torch_function__ = _disabled_torch_function_impl  # results are not of this class unless an operator says so

    @staticmethod
    def __new__(cls, values: rl.Tensor, scales: rl.Tensor) -> Int8Weight:
        """Make a wrapper of the sizes of the bytes and the dtype of the floats."""
        options = {"dtype": scales.dtype, "device": values.device}
        return rl.Tensor._make_wrapper_subclass(cls, values.size(), strides=values.stride(), **options)

    def __init__(self, values: rl.Tensor, scales: rl.Tensor) -> None:
        self.values = values
        self.scales = scales

    @classmethod
    def quantized(cls, weight: rl.Tensor) -> Int8Weight:
        """Round a matrix, row by row, to 255 steps."""
        scales = weight.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
        return cls((weight / scales).round().to(rl.int8), scales)

    def dequantized(self) -> rl.Tensor:
        """The matrix as floats."""
        return self.values.to(self.scales.dtype) * self.scales

    def __repr__(self) -> str:
        return f"Int8Weight({self.dequantized()})"

    def __tensor_flatten__(self) -> tuple[list[str], object]:
        """Name the inner tensors; there is nothing else to know."""
        return ["values", "scales"], None

    @staticmethod
    def __tensor_unflatten__(inner: Mapping[str, rl.Tensor], context: object, size: Any, stride: Any) -> Int8Weight:
        """Put a weight together."""
        return Int8Weight(inner["values"], inner["scales"])

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Multiply by bytes in a linear layer; run other operators on floats."""
        if func.__name__ in KEEPING:
            kept = args[0]
            return cls(func(kept.values), func(kept.scales))
        if func.__name__ == "linear" and isinstance(args[1], cls) and not isinstance(args[0], cls):
            x, weight, bias = (*args, None)[:3]
            product = (x @ weight.values.to(x.dtype).t()) * weight.scales.squeeze(1)
            return product if bias is None else product + bias

        def floats(value: object) -> object:
            return value.dequantized() if isinstance(value, cls) else value

        named: Any = tree_map(floats, dict(kwargs or {}))
        result = func(*[tree_map(floats, value) for value in args], **named)
        return return_and_correct_aliasing(func, args, kwargs, result)


def quantize(module: nn.Module) -> nn.Module:
    """Exchange the weights of all linear layers."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.weight = nn.Parameter(Int8Weight.quantized(layer.weight.detach()), requires_grad=False)
    return module


def main() -> None:
    """Compare a small network in int8, compiled, with itself in float32."""
    rl.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
    x = rl.randn(16, 64)
    with rl.no_grad():
        exact = model(x)
        rounded = rl.compile(quantize(model))(x)
    print(f"largest difference {(exact - rounded).abs().max().item():.3f}, of {exact.abs().max().item():.3f}")


if __name__ == "__main__":
    main()
