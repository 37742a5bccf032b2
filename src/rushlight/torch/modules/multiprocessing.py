"""`torch.multiprocessing`: Python's, and `spawn`, whose processes are the ranks of a job."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from rushlight.distributed import get_rank
from rushlight.distributed.spawning import on_processes
from rushlight.support.errors import require

__all__ = ["spawn"]

_RUNNER = ("-m", "rushlight", "run")  # so that `import torch` is Rushlight in them too


def spawn(
    fn: Callable[..., object],
    args: Sequence[object] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> None:
    """Run `fn(i, *args)` on `nprocs` processes, of which each is rank `i` of a job that MPI connects.

    What a rank raises is raised here. `init_process_group` finds the job, whatever address it is given.
    Errors: A006 for `join=False`; N004, W008 where there is no MPI.
    """
    hint = "start the program with `rushlight launch -n N`"
    require(join, "A006", "multiprocessing.spawn: the program waits for its processes", join=join, hint=hint)
    require(nprocs >= 1, "A002", "multiprocessing.spawn: there is at least one process", nprocs=nprocs)
    on_processes(functools.partial(_on_rank, fn), nprocs, tuple(args), _RUNNER)


def _on_rank(fn: Callable[..., object], *args: object) -> None:
    fn(get_rank(), *args)
