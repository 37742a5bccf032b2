"""Whole graphs: `export` makes one of a function or module, which can be shown, saved, loaded, run and traced again."""

from rushlight.export.api import export, load, save
from rushlight.export.dims import Dim
from rushlight.export.inputs import Input, Mutated, State
from rushlight.export.module import ExportedModule
from rushlight.export.program import ExportedProgram
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.support.peer_names import absent_name

__all__ = [
    "Dim",
    "ExportedModule",
    "ExportedProgram",
    "Input",
    "Mutated",
    "ParamsSpec",
    "State",
    "export",
    "load",
    "save",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
