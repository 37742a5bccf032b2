"""`torch._C`, as far as packages ask for it when they are imported: there is no native core."""

from __future__ import annotations

from rushlight import Generator, Size, Tensor, autocast, no_grad
from rushlight.eager.dispatch.state import STATE
from rushlight.ir.dtype import DType
from rushlight.ir.type import Device
from rushlight.nn.tree.conversion import destination_of
from rushlight.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, _disabled_torch_function_impl
from rushlight.torch.passing import refuse
from rushlight.torch.submodule import Submodule

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "Generator",
    "Size",
    "TensorBase",
    "_AutoDispatchBelowAutograd",
    "_ExcludeDispatchKeyGuard",
    "_TensorBase",
    "_TensorMeta",
    "_are_functorch_transforms_active",
    "_disabled_torch_function_impl",
    "_get_default_device",
    "_get_privateuse1_backend_name",
    "_get_tracing_state",
    "_is_tracing",
    "_log_api_usage_once",
]

TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)


class _Names(type):
    """A class whose every attribute is the attribute's own name."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Names):
    """Names of PyTorch's dispatch keys."""


class DispatchKeySet:
    """A set of names of keys."""

    def __init__(self, *keys: str) -> None:
        self.keys = frozenset(keys)

    def has(self, key: str) -> bool:
        """Whether a key is in the set."""
        return key in self.keys

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys, *other.keys)


class _ExcludeDispatchKeyGuard(autocast):
    """A region without autocast, where the keys are autocast's. Others are not switched off by programs (A006)."""

    def __init__(self, keys: DispatchKeySet) -> None:
        if not all(key.startswith("Autocast") for key in keys.keys):
            refuse("torch._C._ExcludeDispatchKeyGuard", "keys other than autocast's are not switched off by programs")
        super().__init__("cpu", enabled=False)


class _AutoDispatchBelowAutograd(no_grad):
    """Call operators without their derivatives: gradients are off inside."""


def _get_tracing_state() -> None:
    """Return None: there is no tracer of TorchScript."""


def _log_api_usage_once(event: str) -> None:
    """Do nothing."""


def _get_default_device() -> str:
    """Return "cpu"."""
    return "cpu"


def _are_functorch_transforms_active() -> bool:
    """Whether a function is being mapped by `vmap`."""
    return bool(STATE.maps)


def _is_tracing() -> bool:
    """Return False."""
    return False


def _get_privateuse1_backend_name() -> str:
    """Return the name of a device that is not there."""
    return "privateuseone"


def _parse_to(
    *args: object, non_blocking: bool = False, memory_format: object = None, **kwargs: object
) -> tuple[Device | None, DType | None, bool, object]:
    """Return device, dtype, `non_blocking` and memory format of the arguments of `Module.to`."""
    device, dtype = destination_of(*args, **kwargs)
    return device, dtype, non_blocking, memory_format


_nn = Submodule("What layers ask of the native core.", _parse_to=_parse_to)
