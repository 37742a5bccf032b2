"""Adagrad (Duchi, Hazan and Singer 2011)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rushlight.eager.creation import full_like
from rushlight.eager.tensor import Tensor
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import (
    Hyperparameter,
    Optimizer,
    Params,
    State,
    require_hyperparameter,
    require_no_decay,
)

if TYPE_CHECKING:
    from rushlight.eager.sparse.tensor import SparseTensor


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients so far.

    A sparse gradient changes the rows alone that it has.
    """

    switches = ("weight_decay",)
    takes_sparse = True

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
            require_no_decay(grad)
            grad = grad + param * group["weight_decay"]
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        total = state["sum"]
        if grad.is_sparse:
            self._update_rows(param, cast("SparseTensor", grad).coalesce(), total, rate, group["eps"])
            return
        total.add_(grad * grad)
        param.add_(grad * -rate / (total.sqrt() + group["eps"]))

    def _update_rows(
        self, param: Tensor, grad: SparseTensor, total: Tensor, rate: Hyperparameter, eps: Hyperparameter
    ) -> None:
        """Take one step with the places of a sparse gradient."""
        values = grad.values()
        total.add_(grad.with_values(values * values))
        spread = total.sparse_mask(grad).values().sqrt() + eps
        param.add_(grad.with_values(values * -rate / spread))
