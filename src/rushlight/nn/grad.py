"""Gradients of convolutions in their input and in their weight, as functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import integer
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]

Sizes = int | Iterable[int]


def _each(value: Sizes, dims: int) -> list[int]:
    values = [integer(one) for one in value] if isinstance(value, Iterable) else [integer(value)] * dims
    require(len(values) == dims, "S008", f"conv{dims}d: one number, or one for each dim", given=values)
    return values


def _gradient(
    which: str, dims: int, other: Tensor, grad: Tensor, wanted: Iterable[int], rule: tuple[Any, ...]
) -> Tensor:
    sizes = [integer(size) for size in wanted]
    for what, given in (("the gradient", grad.ndim), (f"the {which}", len(sizes)), ("the other operand", other.ndim)):
        require(given == dims + 2, "S002", f"conv{dims}d_{which}: {what} has {dims + 2} dims", dims=given)
    *places, groups = rule
    stride, padding, dilation = [_each(value, dims) for value in places]
    args = (grad, ops.conj(other) if other.dtype.is_complex else other, sizes[2:], stride, padding, dilation)
    result = OPERATORS[f"convolution_{which}"](*args, integer(groups))
    space, kernel = (sizes, other.shape) if which == "input" else (other.shape, sizes)
    reaches = [step * (size - 1) for step, size in zip(dilation, kernel[2:], strict=True)]
    rows = zip(space[2:], padding, reaches, stride, strict=True)
    out = [(size + 2 * around - reach - 1) // step + 1 for size, around, reach, step in rows]
    fits = tuple(result.shape) == tuple(sizes) and tuple(grad.shape[2:]) == tuple(out)
    require(fits, "S014", f"conv{dims}d_{which}: no {which} of this gradient has these sizes", given=sizes, grad=grad)
    return result


@checked
def conv1d_input(
    input_size: Iterable[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv1d` in its input, which has these sizes."""
    return _gradient("input", 1, weight, grad_output, input_size, (stride, padding, dilation, groups))


@checked
def conv1d_weight(
    input: Tensor,
    weight_size: Iterable[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv1d` in its weight, which has these sizes."""
    return _gradient("weight", 1, input, grad_output, weight_size, (stride, padding, dilation, groups))


@checked
def conv2d_input(
    input_size: Iterable[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv2d` in its input, which has these sizes."""
    return _gradient("input", 2, weight, grad_output, input_size, (stride, padding, dilation, groups))


@checked
def conv2d_weight(
    input: Tensor,
    weight_size: Iterable[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv2d` in its weight, which has these sizes."""
    return _gradient("weight", 2, input, grad_output, weight_size, (stride, padding, dilation, groups))


@checked
def conv3d_input(
    input_size: Iterable[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv3d` in its input, which has these sizes."""
    return _gradient("input", 3, weight, grad_output, input_size, (stride, padding, dilation, groups))


@checked
def conv3d_weight(
    input: Tensor,
    weight_size: Iterable[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv3d` in its weight, which has these sizes."""
    return _gradient("weight", 3, input, grad_output, weight_size, (stride, padding, dilation, groups))


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
