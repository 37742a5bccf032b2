"""Activations."""

from __future__ import annotations

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import functional
from rushlight.onnx.registry import operator, table

table(
    {
        "HardSwish": functional.hardswish,
        "Mish": functional.mish,
        "Relu": rl.relu,
        "Sigmoid": rl.sigmoid,
        "Softsign": functional.softsign,
    }
)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """Negative numbers times the slope."""
    return rl.where(x < 0, x * slope, x)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """Negative numbers times `alpha`."""
    return functional.leaky_relu(x, alpha)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Negative numbers along an exponential."""
    return functional.elu(x, alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """An `elu` whose derivative is continuous."""
    return functional.celu(x, alpha)


@operator("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732632, gamma: float = 1.050701) -> Tensor:
    """A scaled `elu`."""
    return gamma * rl.where(x > 0, x, alpha * rl.expm1(x))


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Numbers times the normal distribution's function of them."""
    return functional.gelu(x, approximate=approximate)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Numbers times the sigmoid of `alpha` times them."""
    return x * rl.sigmoid(alpha * x)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """A line between 0 and 1."""
    return (alpha * x + beta).clamp(0, 1)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Numbers that exceed `alpha`, else 0."""
    return rl.where(x > alpha, x, rl.zeros_like(x))


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Numbers brought nearer to zero by `bias`, and those between `-lambd` and `lambd` to 0."""
    moved = rl.where(x < -lambd, x + bias, rl.where(x > lambd, x - bias, rl.zeros_like(x)))
    return moved.to(x.dtype)


@operator("Softplus")
def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return rl.logaddexp(x, rl.zeros_like(x))


def _rows(x: Tensor, axis: int) -> Tensor:
    """The dims from `axis` on as one, of versions before 13."""
    return x.flatten(axis % x.dim()) if x.dim() else x


@operator("Softmax", 13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Exponentials that sum to 1 along a dim."""
    return rl.softmax(x, axis)


@operator("Softmax")
def softmax_rows(x: Tensor, *, axis: int = 1) -> Tensor:
    """Exponentials that sum to 1 along all dims from `axis` on."""
    return rl.softmax(_rows(x, axis), -1).reshape(x.shape)


@operator("LogSoftmax", 13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """The logarithm of softmax."""
    return rl.log_softmax(x, axis)


@operator("LogSoftmax")
def log_softmax_rows(x: Tensor, *, axis: int = 1) -> Tensor:
    """The logarithm of softmax along all dims from `axis` on."""
    return rl.log_softmax(_rows(x, axis), -1).reshape(x.shape)


@operator("Hardmax", 13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first largest number along a dim, else 0."""
    places = x.argmax(axis, keepdim=True)
    return rl.zeros_like(x).scatter(axis, places, 1.0)


@operator("Hardmax")
def hardmax_rows(x: Tensor, *, axis: int = 1) -> Tensor:
    """1 at the first largest number along all dims from `axis` on."""
    return hardmax(_rows(x, axis)).reshape(x.shape)


@operator("Dropout", 12, host=(1, 2), counted=True)
def dropout(x: Tensor, ratio: object = None, training: object = None, *, seed: int = 0, outputs: int = 1) -> object:
    """Zeroes numbers in training, with the mask of those that were kept."""
    share = 0.5 if ratio is None else float(str(ratio))
    if training is None or not bool(training) or not share > 0:
        return dropout_of_inference(x, outputs=outputs)
    kept = rl.rand(x.shape) >= share
    return (rl.where(kept, x / (1 - share), rl.zeros_like(x)), kept)[:outputs]


@operator("Dropout", counted=True)
def dropout_of_inference(x: Tensor, *, ratio: float = 0.5, outputs: int = 1) -> object:
    """What was dropout in training."""
    return x if outputs == 1 else (x, rl.ones(x.shape, dtype=rl.bool))
