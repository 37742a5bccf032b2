"""`torch.cuda` beyond `rushlight.cuda`: classes and questions about devices that are not there."""

from __future__ import annotations

from rushlight.torch.passing import refuse

__all__ = [
    "CUDAGraph",
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "graph",
    "ipc_collect",
    "is_current_stream_capturing",
    "mem_get_info",
    "set_device",
    "set_rng_state",
    "stream",
]

_NO_DEVICE = "there are no CUDA devices here"


class Stream:
    """A class for `isinstance`: nothing is an instance."""

    def __init__(self, *args: object, **options: object) -> None:
        refuse(f"torch.cuda.{type(self).__name__}", _NO_DEVICE)


class Event(Stream):
    """A class for `isinstance`: nothing is an instance."""


class CUDAGraph(Stream):
    """A class for `isinstance`: nothing is an instance."""


class StreamContext(Stream):
    """A class for `isinstance`: nothing is an instance."""


class graph(Stream):  # noqa: N801 - PyTorch's name
    """A class for `isinstance`: nothing is an instance."""


class device(Stream):  # noqa: N801 - PyTorch's name
    """A context of one device; A006, as there is none."""


def stream(stream: object) -> object:
    """Raise A006."""
    refuse("torch.cuda.stream", _NO_DEVICE)


def current_stream(device: object = None) -> object:
    """Raise A006."""
    refuse("torch.cuda.current_stream", _NO_DEVICE)


def current_device() -> int:
    """Raise A006."""
    refuse("torch.cuda.current_device", _NO_DEVICE)


def set_device(device: object) -> None:
    """Raise A006."""
    refuse("torch.cuda.set_device", _NO_DEVICE)


def get_rng_state(device: object = "cuda") -> object:
    """Raise A006."""
    refuse("torch.cuda.get_rng_state", _NO_DEVICE)


def set_rng_state(new_state: object, device: object = "cuda") -> None:
    """Raise A006."""
    refuse("torch.cuda.set_rng_state", _NO_DEVICE)


def mem_get_info(device: object = None) -> tuple[int, int]:
    """Raise A006."""
    refuse("torch.cuda.mem_get_info", _NO_DEVICE)


def get_device_name(device: object = None) -> str:
    """Raise A006."""
    refuse("torch.cuda.get_device_name", _NO_DEVICE)


def get_device_capability(device: object = None) -> tuple[int, int]:
    """Raise A006."""
    refuse("torch.cuda.get_device_capability", _NO_DEVICE)


def get_device_properties(device: object = None) -> object:
    """Raise A006."""
    refuse("torch.cuda.get_device_properties", _NO_DEVICE)


def is_current_stream_capturing() -> bool:
    """Return False."""
    return False


def ipc_collect() -> None:
    """Do nothing: no device holds memory."""
