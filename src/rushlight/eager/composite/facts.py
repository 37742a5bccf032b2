"""Questions about one tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.eager.arguments import required_tensor
from rushlight.eager.boundary import checked
from rushlight.ir.dtype import bool_
from rushlight.ops.dims import same_shape
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor


@checked
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have one shape."""
    return same_shape(required_tensor(input).form.shape, required_tensor(other).form.shape)


@checked
def is_signed(input: Tensor) -> bool:
    """Return whether the dtype holds negative numbers."""
    dtype = required_tensor(input).dtype
    return dtype is not bool_ and dtype.signed


@checked
def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element of a tensor is not 0. Errors: S002 where it is not the only one."""
    require(input.numel() == 1, "S002", "is_nonzero: the tensor must have one element", input=input)
    return bool(input.reshape(()))


@checked
def get_device(input: Tensor) -> int:
    """Return the number of an accelerator's device, which no tensor is on: -1."""
    required_tensor(input)
    return -1


@checked
def is_conj(input: Tensor) -> bool:
    """Return whether a tensor is marked as conjugated: never, as `conj` computes its result."""
    required_tensor(input)
    return False


@checked
def is_neg(input: Tensor) -> bool:
    """Return whether a tensor is marked as negated: never, as views of imaginary parts are copies."""
    required_tensor(input)
    return False


@checked
def resolve_conj(input: Tensor) -> Tensor:
    """Return the tensor itself, which is never marked as conjugated."""
    required_tensor(input)
    return input


@checked
def resolve_neg(input: Tensor) -> Tensor:
    """Return the tensor itself, which is never marked as negated."""
    required_tensor(input)
    return input
