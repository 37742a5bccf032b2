"""Adadelta (Zeiler 2012)."""

from __future__ import annotations

from rushlight.eager.creation import zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_hyperparameter, require_rates


class Adadelta(Optimizer):
    """Scales gradients by the ratio of two running root mean squares: of steps and of gradients."""

    switches = ("weight_decay",)

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1.0,
        rho: float = 0.9,
        eps: Hyperparameter = 1e-6,
        weight_decay: Hyperparameter = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_rates(lr=lr, epsilon=eps, weight_decay=weight_decay)
        require_hyperparameter(0 <= rho <= 1, f"Invalid rho value: {rho}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count and zeros for the running means."""
        return {"step": 0, "square_avg": zeros_like(param), "acc_delta": zeros_like(param)}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        rho, eps = group["rho"], group["eps"]
        state["step"] = state["step"] + 1
        if not group.off["weight_decay"]:
            grad = grad + param * group["weight_decay"]
        square, steps = state["square_avg"], state["acc_delta"]
        square.mul_(rho).add_(grad * (1 - rho) * grad)
        delta = (steps + eps).sqrt() / (square + eps).sqrt() * grad
        steps.mul_(rho).add_(delta * (1 - rho) * delta)
        param.add_(delta * -group["lr"])
