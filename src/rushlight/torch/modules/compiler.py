"""`torch.compiler` beyond `rushlight.compiler`: decorators that pass through."""

from __future__ import annotations

from rushlight.compiler import is_compiling
from rushlight.torch.passing import Decorator

__all__ = ["allow_in_graph", "assume_constant_result", "disable", "is_compiling", "is_dynamo_compiling", "is_exporting"]

_STILL_TRACED = "the function is traced with its caller, as every other is"

allow_in_graph = Decorator("torch.compiler.allow_in_graph", _STILL_TRACED)
assume_constant_result = Decorator("torch.compiler.assume_constant_result", _STILL_TRACED)
disable = Decorator("torch.compiler.disable", _STILL_TRACED)


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Return False: export runs the same code as eager calls do."""
    return False
