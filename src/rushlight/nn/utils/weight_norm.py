"""Weight normalisation by a hook, as it was before there were parametrizations."""

from __future__ import annotations

from typing import Any

from rushlight.eager.boundary import checked
from rushlight.eager.composite.statistics import norm_except_dim
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.modules.module import Module
from rushlight.nn.utils.parametrizations import scaled_directions
from rushlight.support.errors import require, warn
from rushlight.support.peer_names import absent_name

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook before a module's forward that computes the weight from its lengths and directions."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight of a module."""
        return scaled_directions(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    def __call__(self, module: Module, inputs: object) -> None:
        """Compute the weight before a forward."""
        setattr(module, self.name, self.compute_weight(module))


def hook_of(module: Module, kind: type[Any], name: str) -> int | None:
    """Return the key of the hook before a module's forward that is of a class and computes a tensor."""
    hooks: Any = module._forward_pre_hooks
    functions = {key: hook.function for key, hook in hooks.items()}
    return next((key for key, one in functions.items() if isinstance(one, kind) and one.name == name), None)


def taken_hook(module: Module, kind: type[Any], name: str, subject: str) -> Any:
    """Take such a hook from a module and return it. Errors: A002 where there is none."""
    key = hook_of(module, kind, name)
    require(key is not None, "A002", f"{subject} of '{name}' not found in {type(module).__name__}")
    hooks: Any = module._forward_pre_hooks
    return hooks.pop(key).function


def removed_parameter(module: Module, name: str) -> Tensor:
    """Take a parameter or buffer, or what a hook computes in its place, from a module."""
    value = getattr(module, name)
    require(isinstance(value, Tensor), "A001", f"{name} is a {type(value).__name__}, not a tensor")
    delattr(module, name)
    return value


@checked
def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train lengths and directions of a weight apart, as `weight_g` and `weight_v`: an old form.

    `nn.utils.parametrizations.weight_norm` has taken its place.
    """
    hint = "use torch.nn.utils.parametrizations.weight_norm"
    warn("A009", "nn.utils.weight_norm is deprecated", key="weight_norm", hint=hint)
    twice = f"Cannot register two weight_norm hooks on the same parameter {name}"
    require(hook_of(module, WeightNorm, name) is None, "A004", twice)
    made = WeightNorm(name, dim)
    weight = removed_parameter(module, name)
    module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, 2, made.dim).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, made.compute_weight(module))
    module.register_forward_pre_hook(made)
    return module


@checked
def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight a plain parameter again."""
    made: WeightNorm = taken_hook(module, WeightNorm, name, "weight_norm")
    weight = made.compute_weight(module)
    for part in (name, f"{name}_g", f"{name}_v"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight.detach()))
    return module


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
