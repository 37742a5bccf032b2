"""ASGD: averaged stochastic gradient descent (Polyak and Juditsky 1992)."""

from __future__ import annotations

import math

from rushlight.eager.creation import zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_rates
from rushlight.support.errors import require


class ASGD(Optimizer):
    """SGD whose rate falls slowly, with the mean of the parameters since step `t0` in the state as `ax`."""

    switches = ("weight_decay",)
    state_numbers = ("eta", "mu")

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: Hyperparameter = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        require_rates(lr=lr, weight_decay=weight_decay)
        require(not math.isnan(t0), "A002", f"Invalid t0 value: {t0}")
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count, the first rate and weight of the mean, and zeros for it."""
        lr = group["lr"]
        eta = lr.detach().clone() if isinstance(lr, Tensor) else lr
        return {"step": 0, "eta": eta, "mu": 1.0, "ax": zeros_like(param)}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        lr, decay, start = group["lr"], group["lambd"], float(group["t0"])
        state["step"] = step = state["step"] + 1
        if not group.off["weight_decay"]:
            grad = grad + param * group["weight_decay"]
        rate, weight, mean = state["eta"], state["mu"], state["ax"]
        param.mul_(1 - decay * rate).add_(grad * -rate)
        mean.copy_(mean * (1 - weight) + param * weight)
        state["eta"] = lr / (1 + decay * lr * step) ** group["alpha"]
        # A guard on the count, so that a compiled step is two programs.
        averaged = math.isfinite(start) and step > math.floor(start) + 1
        state["mu"] = 1 / (step - start) if averaged else 1.0
