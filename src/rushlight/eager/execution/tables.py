"""Tables of what is decided once for calls of one kind under the settings in force: `block_key()` is part of keys."""

from __future__ import annotations

from typing import Any

from rushlight.ops.record import GENERATION
from rushlight.support import settings

block_key = settings.KEY_OF_BLOCK.get
"""The settings' key within a block that overrides some; None elsewhere, and tables are cleared when the key changes."""

_tables: list[dict[Any, Any]] = []  # all that `forget_plans` clears


def plan_table() -> dict[Any, Any]:
    """A new table of plans."""
    _tables.append({})
    return _tables[-1]


def forget_plans() -> None:
    """Drops all plans, those of derivatives too, for example when an operator's rules have changed."""
    for table in _tables:
        table.clear()
    GENERATION[0] += 1


settings.ON_NEW_KEY.append(forget_plans)
