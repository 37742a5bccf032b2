"""Transforms of functions: batches by `vmap`, derivatives by `grad`, `vjp`, `jvp` and their compositions.

per_sample = rl.vmap(rl.func.grad(loss), in_dims=(None, 0, 0))
gradients = per_sample(parameters, inputs, targets)
"""

from rushlight.func.derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from rushlight.func.functional import functionalize
from rushlight.func.modules import replace_all_batch_norm_modules_, stack_module_state
from rushlight.func.vectorize import vmap
from rushlight.nn.substitution import functional_call
from rushlight.support.peer_names import absent_name

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
