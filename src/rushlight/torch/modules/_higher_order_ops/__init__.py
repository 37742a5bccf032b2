"""`torch._higher_order_ops`: control flow by the names that packages import."""

from rushlight.torch.modules._higher_order_ops.associative_scan import associative_scan
from rushlight.torch.modules._higher_order_ops.cond import cond
from rushlight.torch.modules._higher_order_ops.map import map
from rushlight.torch.modules._higher_order_ops.scan import scan
from rushlight.torch.modules._higher_order_ops.while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
