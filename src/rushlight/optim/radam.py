"""RAdam: Adam that corrects the variance of its first steps (Liu et al. 2020)."""

from __future__ import annotations

from rushlight.eager.creation import zeros_like
from rushlight.eager.tensor import Tensor
from rushlight.optim.groups import ParamGroup
from rushlight.optim.optimizer import Hyperparameter, Optimizer, Params, State, require_betas, require_rates

_TRACTABLE = 5  # below this length of the mean of squares its variance is not known


class RAdam(Optimizer):
    """Steps like SGD with momentum until the mean of squares can be trusted, then like Adam.

    `decoupled_weight_decay` shrinks the parameters themselves, as AdamW does.
    """

    switches = ("weight_decay",)

    def __init__(
        self,
        params: Params,
        lr: Hyperparameter = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: Hyperparameter = 1e-8,
        weight_decay: Hyperparameter = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_rates(lr=lr, epsilon=eps, weight_decay=weight_decay)
        require_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the step count and zeros for the running means."""
        return {"step": 0, "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

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
        update = mean / (1 - beta1**step) * lr
        if step > _last_plain_step(float(beta2)):  # a guard on the count, so that a compiled step is two programs
            root = (1 - beta2**step) ** 0.5
            update = update * (root / (square.sqrt() + group["eps"])) * _rectification(step, beta2)
        param.sub_(update)


def _length(step: Hyperparameter, beta2: float) -> Hyperparameter:
    """Return the length of a simple mean with the variance of the running mean of squares at a step."""
    return 2 / (1 - beta2) - 1 - 2 * step * beta2**step / (1 - beta2**step)


def _last_plain_step(beta2: float) -> int:
    """Return the last step whose variance is not known; the length grows with the steps, up to a limit."""
    if 2 / (1 - beta2) - 1 <= _TRACTABLE:
        return 1 << 62
    step = 1
    while _length(step, beta2) <= _TRACTABLE:
        step += 1
    return step - 1


def _rectification(step: Hyperparameter, beta2: float) -> Hyperparameter:
    """Return the factor that gives a step the variance of later ones."""
    limit, length = 2 / (1 - beta2) - 1, _length(step, beta2)
    return ((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)) ** 0.5
