"""Tuning: tiles of matrix products, searched by measurement and kept as text.

A choice changes speed, never bits: every candidate is compared with the best so far before it is timed. Nothing of this
is loaded before something is tuned.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.tune.records import Records, shared_records
    from rushlight.tune.search import Trial, Tuner, tuner_here

__all__ = ["Records", "Trial", "Tuner", "shared_records", "tuner_here"]


def __getattr__(name: str) -> Any:
    if name in ("Records", "shared_records"):
        return getattr(importlib.import_module("rushlight.tune.records"), name)
    if name in ("Trial", "Tuner", "tuner_here"):
        return getattr(importlib.import_module("rushlight.tune.search"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
