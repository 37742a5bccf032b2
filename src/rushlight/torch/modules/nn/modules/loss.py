"""`torch.nn.modules.loss`: the names of its base classes, which packages import."""

from rushlight.nn.modules.loss import Loss as _Loss
from rushlight.nn.modules.loss import WeightedLoss as _WeightedLoss

__all__ = ["_Loss", "_WeightedLoss"]
