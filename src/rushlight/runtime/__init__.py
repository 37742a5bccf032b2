"""The native floor: the one door to LLVM, the object cache, memory, worker threads, calls and random generators.

Importing this package loads neither llvmlite nor a thread; both come with the first kernel. So do the modules below,
for those who reach them as attributes of the package: `runtime.native.functions()`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.runtime import limits, native

__all__ = ["limits", "native"]


def __getattr__(name: str) -> Any:
    if name == "limits":
        return importlib.import_module("rushlight.runtime.limits")
    if name == "native":
        return importlib.import_module("rushlight.runtime.native")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
