"""Initial values of parameters. Every function writes to its tensor, outside autograd, and returns it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.boundary import checked
from rushlight.eager.creation import eye, from_numpy, zeros, zeros_like
from rushlight.eager.random import randperm
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import float64
from rushlight.ops.record import OPERATORS
from rushlight.runtime.generator import Generator
from rushlight.support.errors import require, warn
from rushlight.support.peer_names import absent_name

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

Fill = TypeVar("Fill", bound=Callable[..., Tensor])

_LINEAR = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)
_GAINS = {**dict.fromkeys(_LINEAR, 1.0), "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


@checked
def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the gain of a nonlinearity: weights that much larger keep the variance of its outputs."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope * slope))
    require(nonlinearity in _GAINS, "A002", f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


@checked
@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with values evenly spread from `a` to `b`."""
    return tensor.uniform_(a, b, generator=generator)


@checked
@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with values of a normal distribution."""
    return tensor.normal_(mean, std, generator=generator)


@checked
@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with values of a normal distribution, drawn again where they are not between `a` and `b`."""
    reachable = a < b and mean - 6 * std < b and mean + 6 * std > a
    require(reachable, "A002", f"trunc_normal_: almost no value of N({mean}, {std}) is between {a} and {b}")
    tensor.normal_(mean, std, generator=generator)
    while bool((outside := (tensor < a) | (tensor > b)).any()):
        fresh = zeros_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(OPERATORS["where"](outside, fresh, tensor))
    return tensor


@checked
@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    return tensor.fill_(val)


@checked
@no_grad()
def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return tensor.fill_(1.0)


@checked
@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return tensor.zero_()


@checked
@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity."""
    require(tensor.ndim == 2, "A002", "Only tensors with 2 dimensions are supported", tensor=tensor)
    return tensor.copy_(eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@checked
@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that each group passes on its first inputs."""
    require(tensor.ndim in (3, 4, 5), "A002", "Only tensors with 3, 4, or 5 dimensions are supported", tensor=tensor)
    outputs, inputs, *kernel = tensor.shape
    require(groups > 0, "A002", "groups must be positive", groups=groups)
    require(outputs % groups == 0, "A002", "dim 0 must be divisible by groups", tensor=tensor, groups=groups)
    tensor.zero_()
    each = outputs // groups
    centre = tuple([size // 2 for size in kernel])
    for group in range(groups):
        for channel in range(min(each, inputs)):
            tensor[(group * each + channel, channel, *centre)] = 1
    return tensor


@checked
@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix normally, with zeros at `sparsity` of the places in each column (Martens 2010)."""
    require(tensor.ndim == 2, "A002", "Only tensors with 2 dimensions are supported", tensor=tensor)
    require(0 <= sparsity <= 1, "A002", "sparsity must be between 0 and 1", sparsity=sparsity)
    rows, columns = tensor.shape
    zeros_each = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[randperm(rows, generator=generator)[:zeros_each], column] = 0
    return tensor


@checked
@no_grad()
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill evenly so that variance is kept forward and backward (Glorot and Bengio 2010)."""
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return tensor.uniform_(-bound, bound, generator=generator)


@checked
@no_grad()
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill normally so that variance is kept forward and backward (Glorot and Bengio 2010)."""
    return tensor.normal_(0.0, _xavier_std(tensor, gain), generator=generator)


@checked
@no_grad()
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill evenly so that variance is kept through rectifiers (He et al. 2015); `a` is the leaky one's slope."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor.uniform_(-bound, bound, generator=generator)


@checked
@no_grad()
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill normally so that variance is kept through rectifiers (He et al. 2015); `a` is the leaky one's slope."""
    return tensor.normal_(0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator=generator)


@checked
@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with an orthogonal matrix, dims after the first taken as one (Saxe et al. 2014)."""
    require(tensor.ndim >= 2, "A002", "Only tensors with 2 or more dimensions are supported", tensor=tensor)
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    drawn = zeros((rows, columns), dtype=tensor.dtype).normal_(generator=generator).to(float64)
    basis, triangle = np.linalg.qr((drawn.mT if rows < columns else drawn).numpy())
    # The signs make the distribution even among all orthogonal matrices (Mezzadri 2007).
    orthogonal = from_numpy(basis) * OPERATORS["sign"](from_numpy(triangle.diagonal().copy()))
    orthogonal = orthogonal.mT if rows < columns else orthogonal
    return tensor.copy_(orthogonal.reshape(tuple(tensor.shape)) * gain)


@checked
def calculate_fans(tensor: Tensor) -> tuple[int, int]:
    """Return fan-in and fan-out of a weight (out, in, *kernel).

    They are the number of inputs of each output, and of outputs of each input.
    """
    few = "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
    require(tensor.ndim >= 2, "A002", few, tensor=tensor)
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


def calculate_fan(tensor: Tensor, mode: str) -> int:
    """Return fan-in or fan-out."""
    modes = ("fan_in", "fan_out")
    require(mode.lower() in modes, "A002", f"Mode {mode} not supported, please use one of {list(modes)}")
    return calculate_fans(tensor)[modes.index(mode.lower())]


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = calculate_fans(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out)) if fan_in + fan_out else 0.0


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = calculate_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def _old(current: Fill) -> Fill:
    """Return a function under its name before PyTorch 0.4, which says so once."""
    name = current.__name__.removesuffix("_")

    @functools.wraps(current)
    def call(*args: Any, **kwargs: Any) -> Any:
        warn("A009", f"nn.init.{name} is deprecated", key=f"init.{name}", hint=f"call nn.init.{name}_")
        return current(*args, **kwargs)

    deprecated: Any = call
    deprecated.__name__ = deprecated.__qualname__ = name
    return deprecated


constant = _old(constant_)
dirac = _old(dirac_)
kaiming_normal = _old(kaiming_normal_)
kaiming_uniform = _old(kaiming_uniform_)
normal = _old(normal_)
orthogonal = _old(orthogonal_)
sparse = _old(sparse_)
uniform = _old(uniform_)
xavier_normal = _old(xavier_normal_)
xavier_uniform = _old(xavier_uniform_)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
