"""Cache keys, derived from the graph's text and everything else that compiled code depends on."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph
from rushlight.ir.target import Target
from rushlight.ir.text import identity_of
from rushlight.runtime import llvm, objects
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
    """A digest of the text of Rushlight's modules, the same on all machines.

    Reading them takes a tenth of a second: the cache remembers the digest of files with these sizes and times.
    """
    files = _source_files()
    cache = objects.shared()
    key = f"source-{structural_digest([f'{name} {size} {changed}' for name, size, changed in files])}"
    stored = cache.get(key)
    if stored is None:
        root = _root()
        texts = [f"{name} {hashlib.blake2b(Path(root + name).read_bytes()).hexdigest()}" for name, _, _ in files]
        stored = {"digest": structural_digest(texts).encode()}
        cache.put(key, stored)
    return stored["digest"].decode()


def _root() -> str:
    return os.path.dirname(os.path.dirname(__file__))


def _source_files() -> list[tuple[str, int, int]]:
    """Names, sizes and times of change of Rushlight's modules, in the order of their names."""
    root = _root()
    files: list[tuple[str, int, int]] = []
    folders = [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    status = entry.stat()
                    files.append((entry.path[len(root) :], status.st_size, status.st_mtime_ns))
    return sorted(files)
