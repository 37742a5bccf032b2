"""States of modules for transforms of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.eager.creation import require_gradient
from rushlight.nn import Module
from rushlight.nn.modules.batchnorm import BatchNorm
from rushlight.ops import OPERATORS
from rushlight.support.errors import require


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and buffers of modules of one class, each stacked along a new first dim.

    Parameters are leaves that require gradients where the modules' do.
    """
    require(len(models), "A002", "stack_module_state: there are no modules")
    kind = type(models[0])
    require(all(type(model) is kind for model in models), "A002", "stack_module_state: modules of several classes")
    training = {model.training for model in models}
    require(len(training) == 1, "A002", "stack_module_state: some modules train and some do not")
    parameters = _stacked([dict(model.named_parameters()) for model in models])
    return parameters, _stacked([dict(model.named_buffers()) for model in models])


def _stacked(named: Sequence[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, first in named[0].items():
        tensors = [one[name] for one in named]
        stacked = OPERATORS["detach"](OPERATORS["stack"](tuple(tensors), 0))
        require_gradient(stacked, first.requires_grad)
        result[name] = stacked
    return result


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let batch norms within a module keep no running statistics, as `vmap` needs; return the module."""
    for module in root.modules():
        if isinstance(module, BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
