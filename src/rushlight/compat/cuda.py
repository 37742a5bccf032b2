"""`torch.cuda` for scripts that ask for devices before they use the CPU: there are none here."""

from rushlight.support.peer_names import absent_name

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all", "synchronize"]


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: without devices there is nothing to seed, as in PyTorch."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: without devices there is nothing to seed, as in PyTorch."""


def synchronize(device: object = None) -> None:
    """Do nothing: calls on the CPU have ended when they return."""


def __getattr__(name: str) -> object:
    raise absent_name("rushlight.cuda", name, __all__)
