"""Functions on modules' parameters and gradients, under PyTorch's module name."""

from rushlight.nn.utils import clip_grad, convert_parameters, rnn
from rushlight.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from rushlight.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from rushlight.support.peer_names import absent_name

__all__ = [
    "clip_grad",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_parameters",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
