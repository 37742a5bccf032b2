"""NAdam: Adam with Nesterov's momentum (Dozat 2016)."""

from __future__ import annotations

from rushlight.eager.creation import zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import (
    Hyperparameter,
    Optimizer,
    Params,
    State,
    require_betas,
    require_hyperparameter,
    require_rates,
)


class NAdam(Optimizer):
    """Adam that looks ahead: the next step's momentum takes part in this one.

    The momentum grows to the first beta at the pace of `momentum_decay`. `decoupled_weight_decay` shrinks the
    parameters themselves, as AdamW does.
    """

    switches = ("weight_decay",)
    state_numbers = ("mu_product",)

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: Hyperparameter = 1e-8,
        weight_decay: Hyperparameter = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_rates(lr=lr, epsilon=eps, weight_decay=weight_decay)
        require_betas(betas)
        require_hyperparameter(momentum_decay >= 0, f"Invalid momentum_decay value: {momentum_decay}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count, the product of momenta, and zeros for the running means."""
        return {"step": 0, "mu_product": 1.0, "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["momentum_decay"]
        state["step"] = step = state["step"] + 1
        if not group.off["weight_decay"]:
            if group["decoupled_weight_decay"]:
                param.mul_(1 - lr * group["weight_decay"])
            else:
                grad = grad + param * group["weight_decay"]
        momentum = beta1 * (1 - 0.5 * 0.96 ** (step * decay))
        following = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay))
        state["mu_product"] = product = state["mu_product"] * momentum
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.add_((grad - mean) * (1 - beta1))
        square.mul_(beta2).add_(grad * (1 - beta2) * grad)
        spread = (square / (1 - beta2**step)).sqrt() + group["eps"]
        param.add_(grad * (-lr * (1 - momentum) / (1 - product)) / spread)
        param.add_(mean * (-lr * following / (1 - product * following)) / spread)
