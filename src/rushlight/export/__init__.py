"""Whole graphs: `export` makes one of a function or module, which can be shown, saved, loaded, run and traced again."""

from importlib import import_module
from typing import TYPE_CHECKING

from rushlight.export.api import export, load, save
from rushlight.export.dynamic_shapes import Dim, dims
from rushlight.export.inputs import Input, Mutated, State
from rushlight.export.module import ExportedModule
from rushlight.export.program import ExportedProgram
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.support.peer_names import absent_name

if TYPE_CHECKING:
    from rushlight.export.gpu import amdgpu, ptx
    from rushlight.export.packaging import Package, package

__all__ = [
    "Dim",
    "ExportedModule",
    "ExportedProgram",
    "Input",
    "Mutated",
    "Package",
    "ParamsSpec",
    "State",
    "amdgpu",
    "dims",
    "export",
    "load",
    "package",
    "ptx",
    "save",
]


def __getattr__(name: str) -> object:
    # These need the code generators.
    if name in ("Package", "package"):
        return getattr(import_module("rushlight.export.packaging"), name)
    if name in ("amdgpu", "ptx"):
        return getattr(import_module("rushlight.export.gpu"), name)
    raise absent_name(__name__, name, __all__)
