"""Activation functions, and probabilities from scores."""

from __future__ import annotations

from rushlight.eager import functions as ops
from rushlight.eager.arguments import flag, number
from rushlight.eager.boundary import checked
from rushlight.eager.functions import sigmoid
from rushlight.eager.mutation import in_place
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


def _activation(name: str, inplace: bool, input: Tensor, **attrs: object) -> Tensor:
    op = OPERATORS[name]
    if attrs:
        attrs = {name: value if value.__class__ is float else number(value) for name, value in attrs.items()}
    if inplace is False or not flag(inplace):
        return op(input, **attrs)
    return in_place(op)(input, **attrs)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the larger of each element and 0."""
    return _activation("relu", inplace, input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return each element held between 0 and 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x * sigmoid(x)`, also called swish."""
    return _activation("silu", inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x * tanh(softplus(x))`."""
    return _activation("mish", inplace, input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where positive, else `alpha * (exp(x) - 1)`."""
    return _activation("elu", inplace, input, alpha=alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the scaled elu that keeps mean 0 and variance 1."""
    return _activation("selu", inplace, input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return x where positive, else `negative_slope * x`."""
    return _activation("leaky_relu", inplace, input, negative_slope=negative_slope)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return each element held between two bounds."""
    return _activation("hardtanh", inplace, input, min_val=min_val, max_val=max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `relu6(x + 3) / 6`."""
    return _activation("hardsigmoid", inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x * relu6(x + 3) / 6`."""
    return _activation("hardswish", inplace, input)


@checked
def softsign(input: Tensor) -> Tensor:
    """Return `x / (1 + |x|)`."""
    return input / (1 + abs(input))


@checked
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of a dim times the sigmoid of the second."""
    require(input.size(dim) % 2 == 0, "A004", "glu: the dim must be of even size", input=input, dim=dim)
    first, second = ops.chunk(input, 2, dim)
    return first * sigmoid(second)


def _implicit_dim(input: Tensor, dim: int | None) -> int:
    return (0 if input.ndim in (0, 1, 3) else 1) if dim is None else dim


@checked
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    """Return exponentials over their sum along a dim."""
    return ops.softmax(input, _implicit_dim(input, dim), dtype=dtype)


@checked
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    """Return the logarithm of softmax."""
    return ops.log_softmax(input, _implicit_dim(input, dim), dtype=dtype)


@checked
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    """Return the softmax of -input."""
    return softmax(-input, dim, dtype=dtype)
