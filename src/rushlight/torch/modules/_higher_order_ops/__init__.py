"""`torch._higher_order_ops`: control flow by the names that packages import."""

from rushlight import cond, scan, while_loop
from rushlight.torch.modules._higher_order_ops.associative_scan import associative_scan

__all__ = ["associative_scan", "cond", "scan", "while_loop"]
