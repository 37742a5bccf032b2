"""GradScaler: losses times a factor, so that gradients of float16 do not become zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import float16
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require, warn

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What was done with an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses and unscales gradients; leaves out steps whose gradients are not finite.

    The scale is multiplied by `backoff_factor` after a step that was left out, and by `growth_factor` after
    `growth_interval` steps in a row that were not. For "cuda", the default, it is off, since there is none.

    >>> scaler = rl.amp.GradScaler("cpu")
    >>> scaler.scale(loss).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device != "cpu":
            warn("A008", f"GradScaler is enabled, but there is no {device}. Disabling.", key=("GradScaler", device))
            self._enabled = False
        if self._enabled:
            require(growth_factor > 1.0, "A002", "The growth factor must be > 1.0.")
            require(backoff_factor < 1.0, "A002", "The backoff factor must be < 1.0.")
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._stages: dict[int, OptState] = {}
        self._overflows: dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or each of a list or tuple, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        iterable = isinstance(outputs, Iterable)
        require(iterable, "A002", "outputs must be a Tensor or an iterable of Tensors", outputs=outputs)
        scaled = [self.scale(output) for output in outputs]
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimizer's gradients by the scale; once between its steps, before gradients are clipped."""
        if not self._enabled:
            return
        stage = self._stage(optimizer)
        unscaled = stage is not OptState.UNSCALED
        require(unscaled, "A004", "unscale_() has already been called on this optimizer since the last update().")
        require(stage is not OptState.STEPPED, "A004", "unscale_() is being called after step().")
        self._overflows[id(optimizer)] = self._unscaled(optimizer)
        self._stages[id(optimizer)] = OptState.UNSCALED

    def _unscaled(self, optimizer: Any) -> bool:
        """Unscale the gradients; return whether any is not finite."""
        has_infinity = False
        with no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    grad = param.grad
                    if grad is None:
                        continue
                    require(grad.dtype is not float16, "A002", "Attempting to unscale FP16 gradients.", grad=grad)
                    has_infinity = has_infinity or not bool(OPERATORS["isfinite"](self._values(grad)).all())
                    grad.mul_(1.0 / self._scale)
        return has_infinity

    def _values(self, grad: Tensor) -> Tensor:
        """The elements of a gradient that may not be finite."""
        return grad._values() if grad.is_sparse else grad

    def step(self, optimizer: Any, *args: object, **kwargs: Any) -> Any:
        """Call the optimizer's step on gradients, unscaled, unless any is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        plain = "closure" not in kwargs
        require(plain, "A004", "Closure use is not currently supported if GradScaler is enabled.")
        stepped = self._stage(optimizer) is OptState.STEPPED
        require(not stepped, "A004", "step() has already been called since the last update().")
        if self._stage(optimizer) is OptState.READY:
            self.unscale_(optimizer)
        result = None if self._overflows[id(optimizer)] else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale to what the steps since the last update found, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            require(bool(self._overflows), "A004", "No inf checks were recorded prior to update.")
            if any(self._overflows.values()):
                self._scale *= self._backoff_factor
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    self._scale *= self._growth_factor
                    self._growth_tracker = 0
        self._stages.clear()
        self._overflows.clear()

    def _stage(self, optimizer: object) -> OptState:
        return self._stages.get(id(optimizer), OptState.READY)

    def get_scale(self) -> float:
        """Return the scale; 1 if disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many finite steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many finite steps the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether it scales at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return scale, factors and the count of finite steps; nothing if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take back a state dict."""
        if not self._enabled:
            return
        require(len(state_dict) > 0, "A004", "The source state dict is empty, possibly from a disabled GradScaler.")
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = int(state_dict["_growth_tracker"])
