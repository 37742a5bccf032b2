"""`torch.distributed`: there is one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from rushlight.torch.passing import refuse

__all__ = [
    "ProcessGroup",
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "destroy_process_group",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_initialized",
    "is_torchelastic_launched",
    "new_group",
]


class ProcessGroup:
    """A class for `isinstance`: nothing is an instance."""


class ReduceOp:
    """Names of reductions, which no call takes."""

    SUM, AVG, PRODUCT, MIN, MAX = "sum", "avg", "product", "min", "max"


def _refused(name: str) -> Callable[..., NoReturn]:
    def call(*args: object, **options: object) -> NoReturn:
        """Raise A006."""
        refuse(f"torch.distributed.{name}", "programs run in one process here")

    return call


all_gather = _refused("all_gather")
all_reduce = _refused("all_reduce")
barrier = _refused("barrier")
broadcast = _refused("broadcast")
destroy_process_group = _refused("destroy_process_group")
get_rank = _refused("get_rank")
get_world_size = _refused("get_world_size")
init_process_group = _refused("init_process_group")
new_group = _refused("new_group")


def is_available() -> bool:
    """Return False."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def is_torchelastic_launched() -> bool:
    """Return False."""
    return False
