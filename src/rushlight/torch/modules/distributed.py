"""`torch.distributed`: there is one process."""

from __future__ import annotations

from rushlight.torch.passing import refuse

__all__ = ["ProcessGroup", "init_process_group", "is_available", "is_initialized", "is_torchelastic_launched"]


class ProcessGroup:
    """A class for `isinstance`: nothing is an instance."""


def is_available() -> bool:
    """Return False."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def is_torchelastic_launched() -> bool:
    """Return False."""
    return False


def init_process_group(*args: object, **options: object) -> None:
    """Raise A006."""
    refuse("torch.distributed.init_process_group", "programs run in one process here")
