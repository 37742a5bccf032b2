"""What the alias has beyond Rushlight: names of `torch` itself, and its modules that say what they cannot do."""

from __future__ import annotations

from rushlight import get_num_threads
from rushlight.eager.storage.untyped import TypedStorage, UntypedStorage
from rushlight.ir.dtype import float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu
from rushlight.torch.submodule import Submodule

__all__ = [
    "__version__",
    "compiled_with_cxx11_abi",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "get_num_interop_threads",
    "is_storage",
    "set_num_interop_threads",
    "typename",
]

__version__ = "2.13.0"


def _show() -> str:
    """Return what torch would tell of its build."""
    return f"Rushlight as torch {__version__}, USE_MKL=OFF, USE_CUDA=OFF"


def _threads() -> str:
    """Return what torch would tell of its threads."""
    return f"Rushlight: {get_num_threads()} threads"


__config__ = Submodule("How torch was built.", parallel_info=_threads, show=_show)


def compiled_with_cxx11_abi() -> bool:
    """Return True, as PyTorch's own builds do: there is no C++ here."""
    return True


def get_num_interop_threads() -> int:
    """Return 1: operations do not run beside each other."""
    return 1


def set_num_interop_threads(count: int) -> None:
    """Do nothing: operations do not run beside each other."""


def is_storage(value: object) -> bool:
    """Return whether a value is a tensor's memory."""
    return isinstance(value, (UntypedStorage, TypedStorage))


def typename(value: object) -> str:
    """Return the name of a value's type, as `torch.FloatTensor` for tensors."""
    kind = getattr(value, "type", None)
    if callable(kind) and hasattr(value, "dtype"):
        return str(kind())
    cls = type(value)
    return f"{cls.__module__}.{cls.__qualname__}"


def _assert(condition: object, message: str) -> None:
    """Assert a condition in Python."""
    assert condition, message
