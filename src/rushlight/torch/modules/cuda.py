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
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "graph",
    "ipc_collect",
    "is_current_stream_capturing",
    "set_device",
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
