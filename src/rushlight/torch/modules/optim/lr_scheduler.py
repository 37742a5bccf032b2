"""`torch.optim.lr_scheduler`: the older name of its base class, which packages import."""

from rushlight.optim.lr_scheduler import LRScheduler as _LRScheduler

__all__ = ["_LRScheduler"]
