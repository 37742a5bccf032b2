"""RMSprop (Tieleman and Hinton 2012)."""

from __future__ import annotations

from rushlight.eager.creation import zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_hyperparameter


class RMSprop(Optimizer):
    """Divides each gradient by the root of a running mean of its squares.

    `centered` subtracts the square of the gradient's running mean under the root (Graves 2013).
    """

    switches = ("momentum", "weight_decay")

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-2,
        alpha: float = 0.99,
        eps: Hyperparameter = 1e-8,
        weight_decay: Hyperparameter = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_hyperparameter(lr >= 0, f"Invalid learning rate: {lr}")
        require_hyperparameter(eps >= 0, f"Invalid epsilon value: {eps}")
        require_hyperparameter(momentum >= 0, f"Invalid momentum value: {momentum}")
        require_hyperparameter(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        require_hyperparameter(alpha >= 0, f"Invalid alpha value: {alpha}")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count and zeros for the running means."""
        state: State = {"step": 0, "square_avg": zeros_like(param)}
        if not group.off["momentum"]:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)
        return state

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        alpha = group["alpha"]
        state["step"] = state["step"] + 1
        if not group.off["weight_decay"]:
            grad = grad + param * group["weight_decay"]
        square = state["square_avg"]
        square.mul_(alpha).add_(grad * (1 - alpha) * grad)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.add_((grad - mean) * (1 - alpha))
            spread = (square - mean * mean).sqrt() + group["eps"]
        else:
            spread = square.sqrt() + group["eps"]
        if group.off["momentum"]:
            param.add_(grad * -group["lr"] / spread)
        else:
            buffer = state["momentum_buffer"]
            buffer.mul_(group["momentum"]).add_(grad / spread)
            param.add_(buffer * -group["lr"])
