"""Stochastic gradient descent, with momentum (Sutskever et al. 2013)."""

from __future__ import annotations

from rushlight.eager.creation import zeros_like
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


class SGD(Optimizer):
    """Moves each parameter `p` against its gradient `g`: `p -= lr * g`.

    With momentum, g is `buf = momentum * buf + (1 - dampening) * g`, or Nesterov's. The buffer is dense where gradients
    are sparse, too.
    """

    switches = ("momentum", "dampening", "weight_decay")
    takes_sparse = True

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Hyperparameter = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        require_hyperparameter(lr >= 0, f"Invalid learning rate: {lr}")
        require_hyperparameter(momentum >= 0, f"Invalid momentum value: {momentum}")
        require_hyperparameter(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        consistent = not nesterov or (momentum > 0 and dampening == 0)
        require_hyperparameter(consistent, "Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the momentum buffer, where there is momentum."""
        # With dampening, the first step takes the whole gradient, as in PyTorch: no buffer says that it is the first.
        wanted = not group.off["momentum"] and group.off["dampening"]
        return {"momentum_buffer": zeros_like(param)} if wanted else {}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter."""
        if not group.off["weight_decay"]:
            require_no_decay(grad)
            grad = grad + param * group["weight_decay"]
        if not group.off["momentum"]:
            momentum = group["momentum"]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = (grad.to_dense() if grad.is_sparse else grad).detach().clone()
            elif group.off["dampening"]:
                buffer.mul_(momentum).add_(grad)
            else:
                buffer.mul_(momentum).add_(grad * (1 - group["dampening"]))
            grad = grad + buffer * momentum if group["nesterov"] else buffer
        param.add_(grad * -group["lr"])
