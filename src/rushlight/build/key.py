"""Cache keys, derived from the graph's text and everything else that compiled code depends on."""

from __future__ import annotations

import functools
import os

from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph
from rushlight.ir.target import Target
from rushlight.ir.text import identity_of
from rushlight.runtime import llvm
from rushlight.support import settings
from rushlight.term import structural_digest


def graph_key(graph: Graph, target: Target, choices: str = "") -> str:
    """Returns a digest of everything that a graph's compiled code depends on.

    That is the graph's text and guards, the settings that matter, the package's source, llvmlite's version, the target
    and `choices`.
    """
    return _key(target, identity_of(graph), settings.key(), choices)


def core_key(tile: GemmTile, target: Target) -> str:
    """A digest of all that a core of matrix products depends on."""
    return _key(target, "gemm core", repr(tile))


def _key(target: Target, *parts: str) -> str:
    return structural_digest([*parts, source_digest(), llvm.version(), repr(target)])


@functools.cache
def source_digest() -> str:
    """A digest of Rushlight's source: names, sizes and modification times of its modules."""
    root = os.path.dirname(os.path.dirname(__file__))
    lines: list[str] = []
    folders = [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    status = entry.stat()
                    lines.append(f"{entry.path[len(root) :]} {status.st_size} {status.st_mtime_ns}")
    return structural_digest(sorted(lines))
