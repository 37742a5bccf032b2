"""Passes over graphs of nodes."""

from rushlight.fx.passes import shape_prop

__all__ = ["shape_prop"]
