"""What the alias has beyond Rushlight: names of `torch` itself, and its modules that say what they cannot do."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from rushlight import get_num_threads
from rushlight.ir.dtype import complex32, float4_e2m1fn_x2, float8_e8m0fnu
from rushlight.ir.type import Device
from rushlight.torch.absent import absent_device
from rushlight.torch.modules.futures import Future
from rushlight.torch.modules.jit import ScriptModule
from rushlight.torch.submodule import Submodule

__all__ = [
    "Future",
    "ScriptModule",
    "__version__",
    "chalf",
    "compiled_with_cxx11_abi",
    "complex32",
    "float4_e2m1fn_x2",
    "float8_e8m0fnu",
    "get_device_module",
    "get_num_interop_threads",
    "set_num_interop_threads",
]

__version__ = "2.13.0"

chalf = complex32
mps = absent_device("mps")
mtia = absent_device("mtia")
xpu = absent_device("xpu")


def _show() -> str:
    """Return what torch would tell of its build."""
    return f"Rushlight as torch {__version__}, USE_MKL=OFF, USE_CUDA=OFF"


def _threads() -> str:
    """Return what torch would tell of its threads."""
    return f"Rushlight: {get_num_threads()} threads"


__config__ = Submodule("How torch was built.", parallel_info=_threads, show=_show)


def get_device_module(device: str | Device | None = None) -> ModuleType:
    """Return the module of a device's type, as `torch.cuda`; that of the CPU by default."""
    return import_module(f"torch.{Device(device or 'cpu').type}")


def compiled_with_cxx11_abi() -> bool:
    """Return True, as PyTorch's own builds do: there is no C++ here."""
    return True


def get_num_interop_threads() -> int:
    """Return 1: operations do not run beside each other."""
    return 1


def set_num_interop_threads(count: int) -> None:
    """Do nothing: operations do not run beside each other."""


def _assert(condition: object, message: str) -> None:
    """Assert a condition in Python."""
    assert condition, message
