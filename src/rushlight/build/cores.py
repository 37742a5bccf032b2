"""Cores of matrix products: compiled once per machine, shared by every module that multiplies."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from rushlight import build
from rushlight.build.key import core_key
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.target import Target
from rushlight.runtime import llvm, objects

_loaded: dict[tuple[GemmTile, Target], llvm.LoadedModule] = {}
_lock = threading.Lock()


def load_cores(tiles: Iterable[GemmTile], target: Target) -> None:
    """Binds the cores of these tiles, so that modules which call them can be loaded."""
    for tile in tiles:
        with _lock:
            if (tile, target) not in _loaded:
                _loaded[tile, target] = _load(tile, target)


def _load(tile: GemmTile, target: Target) -> llvm.LoadedModule:
    key = core_key(tile, target)
    stored = objects.shared().get(key)
    if stored is None:
        name, text = build.core_code.core_text(tile)
        stored = {"object": llvm.compile_object(text, target), "name": name.encode()}
        objects.shared().put(key, stored)
    module = llvm.load_object(stored["object"])
    name = stored["name"].decode()
    llvm.bind_symbol(name, module.address(name))
    return module
