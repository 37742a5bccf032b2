"""GradScaler for gradients that ranks hold in parts."""

from __future__ import annotations

from typing import Any

from rushlight.amp.grad_scaler import GradScaler
from rushlight.distributed.collectives import all_reduce
from rushlight.distributed.group import Group, member
from rushlight.distributed.tensor.dtensor import DTensor
from rushlight.eager.creation import tensor
from rushlight.eager.tensor import Tensor

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A GradScaler whose ranks leave a step out together: where any of a group has a gradient that is not finite.

    All ranks of the group call `unscale_` and `step` in the same order.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Group = None,
    ) -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _unscaled(self, optimizer: Any) -> bool:
        found = tensor(float(super()._unscaled(optimizer)))
        all_reduce(found, "max", group=member(self.process_group))
        return bool(found)

    def _values(self, grad: Tensor) -> Tensor:
        return super()._values(grad.to_local() if isinstance(grad, DTensor) else grad)
