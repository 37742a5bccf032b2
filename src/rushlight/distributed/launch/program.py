"""What a rank that `rushlight launch` has started does before its program begins."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType

from rushlight.distributed.engine.work import is_of_another
from rushlight.runtime.limits import available_cores
from rushlight.support import lazy, settings

_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>


def die_with_parent() -> None:
    """Lets the kernel kill this process when the one that started it ends."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def prepare() -> None:
    """Sets torchrun's variables, and lets failures be told to the launcher; nothing where there is none."""
    folder = settings.get().launch_dir
    told = settings.of_launcher()
    if not folder or "PMI_RANK" not in told:
        return
    die_with_parent()
    rank, size = told["PMI_RANK"], told["PMI_SIZE"]
    (Path(folder) / f"rank{rank}.pid").write_text(str(os.getpid()), encoding="utf-8")
    ranks_here = told.get("MPI_LOCALNRANKS", size)
    settings.tell_program(torchruns_variables(rank, size, told.get("MPI_LOCALRANKID", rank), ranks_here))
    if not settings.get().num_threads:
        settings.update(num_threads=max(1, available_cores() // int(ranks_here)))
    shown = sys.excepthook

    def hook(kind: type[BaseException], failure: BaseException, where: TracebackType | None) -> None:
        write_failure(Path(folder), int(rank), failure, where)
        shown(kind, failure, where)

    sys.excepthook = hook


def torchruns_variables(rank: str, size: str, rank_here: str, ranks_here: str) -> dict[str, str]:
    """The variables of the environment that torchrun sets for a rank, one of so many of its machine."""
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": rank_here,
        "LOCAL_WORLD_SIZE": ranks_here,
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }


def note_exit(ended: SystemExit) -> None:
    """Tells the launcher that the program of this rank ends itself with a status that is not 0."""
    folder, told = settings.get().launch_dir, settings.of_launcher()
    if ended.code and folder and "PMI_RANK" in told:
        write_failure(Path(folder), int(told["PMI_RANK"]), ended, ended.__traceback__)


def write_failure(folder: Path, rank: int, failure: BaseException, where: TracebackType | None) -> None:
    """Writes down what nobody has caught, for the launcher, which prints the first of all."""
    text = "".join(traceback.format_exception(type(failure), failure, where))
    status = 130 if isinstance(failure, KeyboardInterrupt) else 1
    if isinstance(failure, SystemExit) and isinstance(failure.code, int):
        status = failure.code
    report = {"rank": rank, "follows": is_of_another(failure), "time": time.time(), "text": text, "status": status}
    draft = folder / f"rank{rank}.draft"
    draft.write_text(lazy.json.dumps(report), encoding="utf-8")
    draft.rename(folder / f"rank{rank}.json")
