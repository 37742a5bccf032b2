"""Functions on modules' parameters and gradients, under PyTorch's module name."""

from rushlight.nn.gradients import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from rushlight.support.peer_names import absent_name

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
