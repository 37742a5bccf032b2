"""Rprop: resilient backpropagation (Riedmiller and Braun 1993)."""

from __future__ import annotations

from rushlight.eager.creation import full_like, zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_hyperparameter, require_rates


class Rprop(Optimizer):
    """Steps that depend on the gradients' signs alone: larger while a sign stays, smaller when it turns.

    An element whose sign has turned is left alone for one step. For gradients of the whole data set.
    """

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_rates(lr=lr)
        require_hyperparameter(0 < etas[0] < 1 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count, zeros for the last gradient, and the first step sizes."""
        return {"step": 0, "prev": zeros_like(param), "step_size": full_like(param, float(group["lr"]))}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        (smaller, larger), (least, most) = group["etas"], group["step_sizes"]
        where = OPERATORS["where"]
        state["step"] = state["step"] + 1
        last, size = state["prev"], state["step_size"]
        product = grad * last
        scaled = where(product > 0, size * larger, where(product < 0, size * smaller, size))
        size.copy_(scaled.clamp(least, most))
        grad = where(product < 0, 0.0, grad)
        param.sub_(grad.sign() * size)
        last.copy_(grad)
