"""Muon: momentum whose updates are orthogonal matrices (Jordan et al. 2024; Liu et al. 2025)."""

from __future__ import annotations

import math

from rushlight.eager.creation import zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import bfloat16, float32
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_hyperparameter
from rushlight.support.errors import require

_ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """For matrices: SGD with momentum, where each update is replaced by the orthogonal matrix near to it.

    It is found by `ns_steps` steps of a Newton-Schulz iteration with the coefficients of a polynomial, in bfloat16.
    `adjust_lr_fn` says how the rate depends on the sizes: "original" (also None) by the root of rows to columns,
    where there are more rows; "match_rms_adamw" so that updates are as large as AdamW's.
    """

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        require_hyperparameter(lr >= 0, f"Learning rate should be >= 0 but is: {lr}")
        require_hyperparameter(momentum >= 0, f"momentum should be >= 0 but is: {momentum}")
        require_hyperparameter(weight_decay >= 0, f"weight decay should be >= 0 but is: {weight_decay}")
        valid = adjust_lr_fn in _ADJUSTMENTS
        require_hyperparameter(valid, f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def _check(self, params: list[object]) -> None:
        super()._check(params)
        for param in params:
            matrix = isinstance(param, Tensor) and param.dim() == 2
            require(matrix, "A002", "Muon only supports 2D parameters", param=param)
            require(isinstance(param, Tensor) and not param.is_complex(), "A002", "Muon: a complex parameter")

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return zeros for the momentum."""
        return {"momentum_buffer": zeros_like(param)}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        lr, momentum, buffer = group["lr"], group["momentum"], state["momentum_buffer"]
        buffer.add_((grad - buffer) * (1 - momentum))
        update = grad + (buffer - grad) * momentum if group["nesterov"] else buffer
        update = orthogonal(update, group["ns_coefficients"], group["eps"], int(group["ns_steps"]))
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(update.to(param.dtype) * (-lr * _adjustment(group["adjust_lr_fn"], *param.shape)))


def orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], eps: float, steps: int) -> Tensor:
    """Return the orthogonal matrix near to one, in bfloat16, by a Newton-Schulz iteration.

    Its matrices are rounded to bfloat16; products and sums of them are of float32.
    """
    a, b, c = coefficients
    rows, columns = matrix.shape
    result = _rounded(matrix.mT if rows > columns else matrix)
    result = _rounded(result / _rounded((result * result).sum().sqrt()).clamp_min(eps))
    for _ in range(steps):
        gram = _rounded(result @ result.mT)
        polynomial = _rounded(gram * b + (gram @ gram) * c)
        result = _rounded(result * a + polynomial @ result)
    return (result.mT if rows > columns else result).to(bfloat16)


def _rounded(values: Tensor) -> Tensor:
    return values.to(bfloat16).to(float32)


def _adjustment(rule: str | None, rows: int, columns: int) -> float:
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns)) if columns else 1.0
