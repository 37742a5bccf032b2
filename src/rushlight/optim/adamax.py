"""Adamax (Kingma and Ba 2015)."""

from __future__ import annotations

from rushlight.eager.creation import zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_betas, require_rates


class Adamax(Optimizer):
    """Adam with a decaying maximum of gradients in the place of the root of their mean square."""

    switches = ("weight_decay",)

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: Hyperparameter = 1e-8,
        weight_decay: Hyperparameter = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        require_rates(lr=lr, epsilon=eps, weight_decay=weight_decay)
        require_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count and zeros for mean and maximum."""
        return {"step": 0, "exp_avg": zeros_like(param), "exp_inf": zeros_like(param)}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        beta1, beta2 = group["betas"]
        state["step"] = step = state["step"] + 1
        if not group.off["weight_decay"]:
            grad = grad + param * group["weight_decay"]
        mean, largest = state["exp_avg"], state["exp_inf"]
        mean.add_((grad - mean) * (1 - beta1))
        largest.copy_(OPERATORS["maximum"](largest * beta2, grad.abs() + group["eps"]))
        param.add_(mean * -(group["lr"] / (1 - beta1**step)) / largest)
