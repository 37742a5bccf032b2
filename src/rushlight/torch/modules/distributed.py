"""What `torch.distributed` has for programs that its launcher starts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from rushlight.distributed import pipelining as stages
from rushlight.distributed.group import Group, ProcessGroup, member
from rushlight.fx import pipelining as cutting
from rushlight.torch import torchrun
from rushlight.torch.submodule import Submodule

F = TypeVar("F", bound=Callable[..., object])

__all__ = ["default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)


def record(fn: F, error_handler: object = None) -> F:
    """Return the function: `rushlight launch` prints the first failure of all ranks by itself."""
    return fn


def _set_pg_timeout(timeout: timedelta, group: Group = None) -> None:
    """Say how long a group's calls wait for other ranks."""
    member(group).set_timeout(timeout)


def _get_default_group() -> ProcessGroup:
    """Return the group of all ranks."""
    return member(None)


distributed_c10d = Submodule("Process groups.", _set_pg_timeout=_set_pg_timeout, _get_default_group=_get_default_group)
# Of what cuts models, which needs graphs, and what runs stages.
pipelining = Submodule(
    "Models cut into stages, which schedules run.",
    **{name: getattr(module, name) for module in (stages, cutting) for name in module.__all__},
    _IR=cutting,
)
run = Submodule("A launcher of ranks.", main=torchrun.main)
launch = Submodule("The older launcher of ranks.", main=torchrun.launch_main)
constants = Submodule("Constants of process groups.", default_pg_timeout=default_pg_timeout)
elastic = Submodule(
    "What a launcher's ranks use.",
    multiprocessing=Submodule("Processes of a job.", errors=Submodule("Errors of ranks.", record=record)),
)
