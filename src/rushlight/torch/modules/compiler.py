"""`torch.compiler` beyond `rushlight.compiler`: names that are not needed here."""

from __future__ import annotations

from rushlight.compiler import is_compiling

__all__ = ["is_dynamo_compiling", "is_exporting"]

is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Return False: export runs the same code as eager calls do."""
    return False
