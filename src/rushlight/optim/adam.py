"""Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019)."""

from __future__ import annotations

from rushlight.eager.creation import zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_betas, require_rates


class Adam(Optimizer):
    """Divides a running mean of gradients by the root of a running mean of their squares.

    A step has about the size of the learning rate. `decoupled_weight_decay` shrinks the parameters themselves, as
    AdamW does, in place of adding to the gradients. `foreach`, `fused` and `capturable` are PyTorch's choices of
    implementation and change nothing here.
    """

    switches = ("weight_decay",)

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-3,
        betas: tuple[Hyperparameter, Hyperparameter] = (0.9, 0.999),
        eps: Hyperparameter = 1e-8,
        weight_decay: Hyperparameter = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        require_rates(lr=lr, epsilon=eps, weight_decay=weight_decay)
        require_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count and zeros for the running means."""
        state: State = {"step": 0, "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)
        return state

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        lr, (beta1, beta2) = group["lr"], group["betas"]
        state["step"] = step = state["step"] + 1
        if not group.off["weight_decay"]:
            if group["decoupled_weight_decay"]:
                param.mul_(1 - lr * group["weight_decay"])
            else:
                grad = grad + param * group["weight_decay"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.add_((grad - mean) * (1 - beta1))
        square.mul_(beta2).add_(grad * (1 - beta2) * grad)
        correction1 = 1 - beta1**step
        root_of_correction2 = (1 - beta2**step) ** 0.5
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            largest.copy_(OPERATORS["maximum"](largest, square))
            square = largest
        spread = square.sqrt() / root_of_correction2 + group["eps"]
        param.add_(mean * -(lr / correction1) / spread)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters themselves."""

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-3,
        betas: tuple[Hyperparameter, Hyperparameter] = (0.9, 0.999),
        eps: Hyperparameter = 1e-8,
        weight_decay: Hyperparameter = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
