"""Modules: layers, containers, losses, and their base class."""

import importlib

from rushlight.eager.tensor import Parameter
from rushlight.nn import functional, grad, init, modules, parallel, parameter, utils
from rushlight.nn.modules import *  # noqa: F403 - its `__all__` is written out
from rushlight.nn.parallel import DataParallel
from rushlight.nn.parameter import UninitializedBuffer, UninitializedParameter
from rushlight.nn.tree.buffer import Buffer
from rushlight.support.peer_names import absent_name

__all__ = ["Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter"]
__all__ += ["functional", "grad", "init", "modules", "parallel", "parameter", "utils"]
__all__ += modules.__all__


def __getattr__(name: str) -> object:
    if name == "kernels":  # few programs need them, and they load the tile language
        return importlib.import_module("rushlight.nn.kernels")
    raise absent_name(__name__, name, __all__)
