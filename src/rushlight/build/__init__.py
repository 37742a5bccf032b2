"""From a graph to an executable: passes, schedule, code, cache.

The pipeline is loaded when it is first asked for: importing Rushlight needs no compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.build.compile import BACKENDS, compile_graph
    from rushlight.build.executable import Executable, Summary

__all__ = ["BACKENDS", "Executable", "Summary", "compile_graph"]


def __getattr__(name: str) -> Any:
    if name in ("BACKENDS", "compile_graph"):
        return getattr(importlib.import_module("rushlight.build.compile"), name)
    if name in ("Executable", "Summary"):
        return getattr(importlib.import_module("rushlight.build.executable"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
