"""Compiled graphs as scripts that run anywhere, and what to do with one that is wrong: shrink, bisect, compare.

With the setting `repro` each compiled graph writes a script when it first runs (`recording`). A script holds the
graph's text, its inputs, and the digest of its results (`script`); run by Python it compiles the graph and compares.
`shrink` looks for the smallest part of a graph that is still wrong, `bisect` for the pass that makes it so, and
`differences` for what two scripts do not share.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rushlight.repro.bisecting import Finding, bisect
    from rushlight.repro.differing import differences
    from rushlight.repro.given import Given
    from rushlight.repro.recording import Recorded
    from rushlight.repro.script import Script, check, read, script_of
    from rushlight.repro.shrinking import Shrunk, shrink

__all__ = [
    "Finding",
    "Given",
    "Recorded",
    "Script",
    "Shrunk",
    "bisect",
    "check",
    "differences",
    "read",
    "script_of",
    "shrink",
]


def __getattr__(name: str) -> object:
    """A name of the package, whose module is loaded when it is first asked for: the setting is seldom on."""
    if name in ("Finding", "bisect"):
        return getattr(importlib.import_module("rushlight.repro.bisecting"), name)
    if name == "differences":
        return importlib.import_module("rushlight.repro.differing").differences
    if name == "Given":
        return importlib.import_module("rushlight.repro.given").Given
    if name == "Recorded":
        return importlib.import_module("rushlight.repro.recording").Recorded
    if name in ("Script", "check", "read", "script_of"):
        return getattr(importlib.import_module("rushlight.repro.script"), name)
    if name in ("Shrunk", "shrink"):
        return getattr(importlib.import_module("rushlight.repro.shrinking"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
