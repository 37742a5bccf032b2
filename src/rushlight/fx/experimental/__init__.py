"""Tracing of operators."""

from rushlight.fx.experimental import proxy_tensor

__all__ = ["proxy_tensor"]
