"""From a graph to an executable: passes, schedule, code, cache.

The cache is loaded when a graph is first compiled; the passes and code generators are loaded when the cache lacks the
code. Importing Rushlight needs neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.build import core_code, pipeline
    from rushlight.build.compile import BACKENDS, compile_for, compile_graph
    from rushlight.build.executable import Executable, Summary
    from rushlight.build.index_asserts import with_asserts_of_dead_calls, with_index_asserts

__all__ = [
    "BACKENDS",
    "Executable",
    "Summary",
    "compile_for",
    "compile_graph",
    "core_code",
    "pipeline",
    "with_asserts_of_dead_calls",
    "with_index_asserts",
]


def __getattr__(name: str) -> Any:
    if name in ("BACKENDS", "compile_for", "compile_graph"):
        return getattr(importlib.import_module("rushlight.build.compile"), name)
    if name in ("Executable", "Summary"):
        return getattr(importlib.import_module("rushlight.build.executable"), name)
    if name in ("with_asserts_of_dead_calls", "with_index_asserts"):
        return getattr(importlib.import_module("rushlight.build.index_asserts"), name)
    if name == "core_code":
        return importlib.import_module("rushlight.build.core_code")
    if name == "pipeline":
        return importlib.import_module("rushlight.build.pipeline")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
