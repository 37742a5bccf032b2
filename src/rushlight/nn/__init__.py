"""Modules: layers, containers, losses, and their base class."""

from rushlight.eager.tensor import Parameter
from rushlight.nn import functional, init, modules, utils
from rushlight.nn.modules import *  # noqa: F403 - its `__all__` is written out
from rushlight.nn.tree.buffer import Buffer
from rushlight.support.peer_names import absent_name

__all__ = ["Buffer", "Parameter", "functional", "init", "modules", "utils"]
__all__ += modules.__all__


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
