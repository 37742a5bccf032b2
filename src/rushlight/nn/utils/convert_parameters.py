"""Parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require


@checked
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements of some tensors, one after the other."""
    listed = list(parameters)
    for param in listed:
        require(isinstance(param, Tensor), "A001", "parameters_to_vector: a tensor is expected", parameter=param)
    return OPERATORS["cat"]([param.reshape(-1) for param in listed])


@checked
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let parameters show consecutive parts of a vector."""
    if not isinstance(vec, Tensor):
        fail("A001", f"expected a Tensor, but got {type(vec).__name__}")
    begin = 0
    for param in parameters:
        require(isinstance(param, Tensor), "A001", "vector_to_parameters: a tensor is expected", parameter=param)
        end = begin + param.numel()
        require(end <= vec.numel(), "S014", "vector_to_parameters: the vector is too short", vector=vec)
        param.data = vec[begin:end].reshape(param.shape).data
        begin = end
