"""Adagrad (Duchi, Hazan and Singer 2011)."""

from __future__ import annotations

from rushlight.eager.creation import full_like
from rushlight.eager.tensor import Tensor
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_hyperparameter


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients so far."""

    switches = ("weight_decay",)

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-2,
        lr_decay: float = 0,
        weight_decay: Hyperparameter = 0,
        initial_accumulator_value: float = 0,
        eps: Hyperparameter = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        require_hyperparameter(lr >= 0, f"Invalid learning rate: {lr}")
        require_hyperparameter(lr_decay >= 0, f"Invalid lr_decay value: {lr_decay}")
        require_hyperparameter(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        start = initial_accumulator_value
        require_hyperparameter(start >= 0, f"Invalid initial_accumulator_value value: {start}")
        require_hyperparameter(eps >= 0, f"Invalid epsilon value: {eps}")
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        self.__rushlight_prepare__([])  # as in PyTorch, the state is there from the beginning

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count and the first sum."""
        return {"step": 0, "sum": full_like(param, group["initial_accumulator_value"])}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        state["step"] = step = state["step"] + 1
        if not group.off["weight_decay"]:
            grad = grad + param * group["weight_decay"]
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        total = state["sum"]
        total.add_(grad * grad)
        param.add_(grad * -rate / (total.sqrt() + group["eps"]))
