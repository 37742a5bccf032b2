"""`torch._dynamo`, as far as programs steer the compiler by it."""

from __future__ import annotations

from rushlight.compiler import mark_dynamic, mark_static, reset
from rushlight.torch.modules.compiler import allow_in_graph, disable, is_compiling
from rushlight.torch.submodule import Submodule

__all__ = ["allow_in_graph", "config", "disable", "is_compiling", "mark_dynamic", "mark_static", "reset"]

config = Submodule(
    "Flags of a compiler that is not used; they may be set, and change nothing.",
    cache_size_limit=8,
    capture_scalar_outputs=True,
    recompile_limit=8,
    suppress_errors=False,
)
