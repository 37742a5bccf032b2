"""Adafactor (Shazeer and Stern 2018)."""

from __future__ import annotations

import math

from rushlight.eager.creation import zeros, zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import ml_dtypes
from rushlight.ops.record import OPERATORS
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_hyperparameter
from rushlight.support.errors import require


class Adafactor(Optimizer):
    """Adam without momentum, whose mean squares of a matrix are kept as means of its rows and columns.

    Steps are of the size of the parameter times `lr`, or times one over the root of the step count where that is
    smaller. `eps` are the least mean square (None: the dtype's precision) and the least size of a parameter; `d` is
    the root mean square from which on updates are scaled down.
    """

    switches = ("weight_decay",)
    takes_complex = False

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: Hyperparameter = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        require_hyperparameter(lr >= 0, f"Learning rate should be >= 0 but is: {lr}")
        require_hyperparameter(beta2_decay <= 0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        require(
            isinstance(eps, (tuple, list)) and len(eps) == 2, "A001", "Adafactor: eps is a pair of numbers", eps=eps
        )
        require_hyperparameter(eps[0] is None or eps[0] >= 0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        require_hyperparameter(eps[1] >= 0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        require_hyperparameter(d >= 1, f"Clipping threshold d should be >= 1 but is: {d}")
        require_hyperparameter(weight_decay >= 0, f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count and zeros for the mean squares."""
        if param.dim() < 2:
            return {"step": 0, "variance": zeros_like(param)}
        *batch, rows, columns = param.shape
        dtype, device = param.dtype, param.device
        row = zeros(*batch, rows, 1, dtype=dtype, device=device)
        return {"step": 0, "row_var": row, "col_var": zeros(*batch, 1, columns, dtype=dtype, device=device)}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        lr, (least_square, least_size) = group["lr"], group["eps"]
        if least_square is None:
            least_square = float(ml_dtypes().finfo(param.dtype.numpy).eps)
        state["step"] = step = state["step"] + 1
        root = math.sqrt(max(param.numel(), 1))
        size = ((param * param).sum().sqrt() / root).clamp_min(least_size)
        rate = OPERATORS["minimum"](size * lr, size * step**-0.5)
        if not group.off["weight_decay"]:
            param.mul_(1 - lr * group["weight_decay"])
        square = self._mean_square(grad, state, step ** group["beta2_decay"], least_square)
        update = square.clamp_min(least_square * least_square).rsqrt() * grad
        excess = ((update * update).sum().sqrt() / (root * group["d"])).clamp_min(1.0)
        param.sub_(update * (rate / excess))

    @staticmethod
    def _mean_square(grad: Tensor, state: State, weight: float, least: float) -> Tensor:
        """Take a gradient into the mean squares and return them, a matrix as rows times columns."""
        square = grad * grad
        if "variance" in state:
            mean = state["variance"]
            mean.add_((square - mean) * weight)
            return mean
        row, column = state["row_var"], state["col_var"]
        row.add_((square.mean(-1, keepdim=True) - row) * weight)
        column.add_((square.mean(-2, keepdim=True) - column) * weight)
        return row * column / row.mean(-2, keepdim=True).clamp_min(least)
