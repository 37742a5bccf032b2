"""SparseAdam: Adam on the rows alone that a sparse gradient has."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rushlight.eager.creation import zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_betas
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.sparse.tensor import SparseTensor


class SparseAdam(Optimizer):
    """Adam for sparse gradients, as those of `nn.Embedding(sparse=True)`.

    Running means and parameters change at the places of a gradient alone; what has none does not decay. Errors: A006
    for a dense gradient.
    """

    takes_sparse = True

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        require(lr > 0, "A002", f"Invalid learning rate: {lr}")
        require(eps > 0, "A002", f"Invalid epsilon value: {eps}")
        require_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _check(self, params: list[object]) -> None:
        for number, param in enumerate(params):
            fits = not (isinstance(param, Tensor) and param.is_sparse)
            require(fits, "A002", f"SparseAdam requires dense parameter tensors; the one at {number} is sparse")
        super()._check(params)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count and zeros for the running means."""
        return {"step": 0, "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with the places of a sparse gradient."""
        fits = grad.is_sparse
        require(fits, "A006", "SparseAdam does not support dense gradients, please consider Adam instead", param=param)
        state["step"] = step = state["step"] + 1
        rows, (beta1, beta2) = cast("SparseTensor", grad).coalesce(), group["betas"]
        values = rows.values()
        mean = _moved(state["exp_avg"], rows, values, 1 - beta1)
        square = _moved(state["exp_avg_sq"], rows, values * values, 1 - beta2)
        size = group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        param.add_(rows.with_values(mean * -size / (square.sqrt() + group["eps"])))


def _moved(average: Tensor, at: SparseTensor, values: Tensor, weight: float) -> Tensor:
    """Move a running mean towards values at the places of a sparse tensor; return the mean there."""
    before = average.sparse_mask(at).values()
    change = (values - before) * weight
    average.add_(at.with_values(change))
    return before + change
