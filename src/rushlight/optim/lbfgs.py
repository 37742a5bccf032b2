"""L-BFGS: a quasi-Newton method of limited memory (Liu and Nocedal 1989)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from rushlight.eager.autograd.modes import enable_grad, no_grad
from rushlight.eager.creation import zeros_like
from rushlight.eager.dispatch import call_user
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.optim.line_search import Point, strong_wolfe
from rushlight.optim.optimizer import Optimizer, Params, State
from rushlight.support.errors import fail, require

Closure = Callable[[], Any]


class LBFGS(Optimizer):
    """Steps along the gradient times an approximate inverse Hessian, from the last `history_size` steps.

    `step(closure)` goes up to `max_iter` steps and evaluates the loss, which `closure` computes with its gradients, up
    to `max_eval` times. `line_search_fn="strong_wolfe"` searches the length of each; without it that is `lr`. Only
    one parameter group is possible.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        require(lr >= 0, "A002", f"Invalid learning rate: {lr}")
        valid = line_search_fn in (None, "strong_wolfe")
        require(valid, "A002", "LBFGS: only 'strong_wolfe' is supported", line_search_fn=line_search_fn)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        single = len(self.param_groups) == 1
        require(single, "A002", "LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Closure | None = None) -> Any:
        """Take up to `max_iter` steps, and return the loss before the first one."""
        if not callable(closure):
            fail("A003", "LBFGS: step takes a closure that computes the loss and its gradients")
        with no_grad():
            return self._minimize(closure)

    def _minimize(self, closure: Closure) -> Any:
        group, state = self.param_groups[0], self._shared_state()
        tolerance_grad, tolerance_change = group["tolerance_grad"], group["tolerance_change"]
        with enable_grad():
            first_loss = call_user(closure)
        state["func_evals"] += 1
        loss, grad, evaluations, last_loss = _as_number(first_loss), self._flat_grad(), 1, 0.0
        if _largest(grad) <= tolerance_grad:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, grad)
            state["prev_flat_grad"], last_loss = grad.clone(), loss
            rate = float(group["lr"])
            length = min(1.0, 1.0 / float(grad.abs().sum())) * rate if state["n_iter"] == 1 else rate
            state["d"], state["t"], state["prev_loss"] = direction, length, last_loss
            slope = float(grad.dot(direction))
            if slope > -tolerance_change:
                break
            final = iteration == group["max_iter"]
            start = Point(0.0, loss, grad, slope)
            point, calls = self._advance(closure, start, direction, length, group["max_eval"] - evaluations, final)
            loss, grad, state["t"] = point.loss, point.grad, point.step
            evaluations += calls
            state["func_evals"] += calls
            if final or evaluations >= group["max_eval"] or _largest(grad) <= tolerance_grad:
                break
            if _largest(direction) * abs(point.step) <= tolerance_change or abs(loss - last_loss) < tolerance_change:
                break
        return first_loss

    def _shared_state(self) -> State:
        """Return the state, which is that of all parameters and is kept under the first one."""
        state = self.state[self.param_groups[0]["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        return state

    def _direction(self, state: State, grad: Tensor) -> Tensor:
        """Return minus the approximate inverse Hessian, with the last step in it, times the gradient."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -grad
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = grad - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = float(change.dot(step))
        if curvature > 1e-10:
            if len(changes) == self.param_groups[0]["history_size"]:
                for memory in (changes, steps, inverses):
                    memory.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / float(change.dot(change))
        q, factors = -grad, list[float]()
        for change, step, inverse in zip(changes[::-1], steps[::-1], inverses[::-1], strict=True):
            factors.append(float(step.dot(q)) * inverse)
            q = q - change * factors[-1]
        q = q * state["H_diag"]
        for change, step, inverse, factor in zip(changes, steps, inverses, factors[::-1], strict=True):
            q = q + step * (factor - float(change.dot(q)) * inverse)
        return q

    def _advance(
        self, closure: Closure, start: Point, direction: Tensor, length: float, most: int, final: bool
    ) -> tuple[Point, int]:
        """Move along a direction; return the point, and how often the loss was evaluated.

        Without a line search the loss after the last step is not needed, and stays the one before.
        """
        if self.param_groups[0]["line_search_fn"] is None:
            self._move(direction, length)
            if final:
                return start._replace(step=length), 0
            with enable_grad():
                loss = _as_number(call_user(closure))
            return Point(length, loss, self._flat_grad(), 0.0), 1
        params = self.param_groups[0]["params"]
        places = [param.clone() for param in params]

        def evaluate(step: float) -> Point:
            self._move(direction, step)
            with enable_grad():
                loss = _as_number(call_user(closure))
            grad = self._flat_grad()
            for param, offset in zip(params, places, strict=True):
                param.copy_(offset)
            return Point(step, loss, grad, float(grad.dot(direction)))

        tolerance = self.param_groups[0]["tolerance_change"]
        point, calls = strong_wolfe(evaluate, start, length, _largest(direction), tolerance, most)
        self._move(direction, point.step)
        return point, calls

    def _flat_grad(self) -> Tensor:
        """Return all gradients as one new vector; zeros for parameters without one."""
        parts: list[Tensor] = []
        for param in self.param_groups[0]["params"]:
            grad = zeros_like(param) if param.grad is None else param.grad
            grad = grad.to_dense() if grad.is_sparse else grad
            parts.append((OPERATORS["view_as_real"](grad) if grad.is_complex() else grad).reshape(-1))
        return OPERATORS["cat"](tuple(parts), 0)

    def _move(self, direction: Tensor, step: float) -> None:
        at = 0
        for param in self.param_groups[0]["params"]:
            real = OPERATORS["view_as_real"](param) if param.is_complex() else param
            part = direction[at : at + real.numel()].reshape(real.shape)
            at += real.numel()
            real.add_(part * step)


def _as_number(loss: object) -> float:
    """The loss that a closure returned."""
    if not isinstance(loss, Real | Tensor):
        fail("A003", f"LBFGS: the closure returns the loss, not {type(loss).__name__}")
    return float(loss)


def _largest(vector: Tensor) -> float:
    return float(vector.abs().max())
