"""Activation functions, and probabilities from scores."""

from __future__ import annotations

from rushlight.eager import functions as ops
from rushlight.eager.arguments import flag, number
from rushlight.eager.boundary import checked
from rushlight.eager.mutation import in_place
from rushlight.eager.random import rand
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import float32
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require

_TINY = 1.1754943508222875e-38  # the least normal number of float32


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
    return ops.glu(input, dim)


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


@checked
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return x where positive, else `weight * x`; the weight's elements go with dim 1."""
    channels = input.shape[1] if input.ndim > 1 else 1
    count = weight.numel()
    fits = weight.ndim <= 1 and (count == 1 or holds(count == channels, "prelu: a weight for each channel"))
    require(fits, "S014", "prelu: the weight has one element, or one for each channel", input=input, weight=weight)
    return ops.prelu(input, weight)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where positive, else `alpha * (exp(x / alpha) - 1)`."""
    return _activation("celu", inplace, input, alpha=alpha)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x above `threshold`, else `value`."""
    return _activation("threshold", inplace, input, threshold=threshold, value=value)


@checked
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return x where positive, else x times a slope: drawn for each element while training, else the middle one."""
    require(lower <= upper, "A002", "rrelu: lower is at most upper", lower=lower, upper=upper)
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = ops.rand_like(input) * (upper - lower) + lower
    result = ops.where(input > 0, input, input * slope)
    return input.copy_(result) if inplace else result


def relu_(input: Tensor) -> Tensor:
    """Overwrite the input with `relu` of it."""
    return relu(input, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Overwrite the input with `elu` of it."""
    return elu(input, alpha, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Overwrite the input with `celu` of it."""
    return celu(input, alpha, True)


def selu_(input: Tensor) -> Tensor:
    """Overwrite the input with `selu` of it."""
    return selu(input, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Overwrite the input with `leaky_relu` of it."""
    return leaky_relu(input, negative_slope, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Overwrite the input with `hardtanh` of it."""
    return hardtanh(input, min_val, max_val, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Overwrite the input with `threshold` of it."""
    return _activation("threshold", True, input, threshold=threshold, value=value)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """Overwrite the input with `rrelu` of it."""
    return rrelu(input, lower, upper, training, True)


@checked
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return a draw from the Gumbel-softmax distribution; if `hard`, the largest element's one-hot rows.

    Gradients of a hard draw are those of the soft one. `eps` is without effect, as in PyTorch.
    """
    wide = rand(tuple(logits.shape), dtype=float32, device=logits.device)
    # A draw is below 1; of 0 the smallest number stands in, so that each logarithm is finite.
    waits = ops.clamp_min(-ops.log1p(-wide), _TINY)
    noise = -ops.log(waits)
    soft = ops.softmax((logits + noise.to(logits.dtype)) / tau, dim)
    if not hard:
        return soft
    places = ops.argmax(soft, dim, True)
    chosen = ops.zeros_like(soft).scatter(dim, places, 1.0)
    return chosen - soft.detach() + soft
