"""Questions about one tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.eager.arguments import required_operand, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.execution.operands import form_of_operand
from rushlight.ir.dtype import DType, bool_
from rushlight.ops.dims import same_shape
from rushlight.ops.promote import promote
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor


@checked
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have one shape."""
    return same_shape(required_tensor(input).form.shape, required_tensor(other).form.shape)


@checked
def equal(input: Tensor, other: object) -> bool:
    """Return whether two tensors have one shape and equal elements."""
    one, two = required_tensor(input), required_tensor(other)
    return same_shape(one.form.shape, two.form.shape) and bool((one == two).all())


@checked
def is_inference(input: Tensor) -> bool:
    """Return False: tensors of `inference_mode` are like others."""
    required_tensor(input)
    return False


@checked
def is_distributed(input: Tensor) -> bool:
    """Return False: a tensor is in one process."""
    required_tensor(input)
    return False


@checked
def result_type(tensor1: object, tensor2: object) -> DType:
    """Return the dtype of a result of two tensors or numbers."""
    return promote(*[form_of_operand(required_operand(value)).type for value in (tensor1, tensor2)])


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
