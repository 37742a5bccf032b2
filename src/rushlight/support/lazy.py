"""Modules of the standard library that not every program needs, imported when first asked for: `lazy.json.dumps(x)`."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import hashlib
    import json

__all__ = ["hashlib", "json"]


def __getattr__(name: str) -> Any:
    if name == "hashlib":
        return importlib.import_module("hashlib")
    if name == "json":
        return importlib.import_module("json")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
