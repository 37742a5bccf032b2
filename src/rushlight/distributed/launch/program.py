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
    settings.tell_program(
        {
            "RANK": rank,
            "WORLD_SIZE": size,
            "LOCAL_RANK": told.get("MPI_LOCALRANKID", rank),
            "LOCAL_WORLD_SIZE": told.get("MPI_LOCALNRANKS", size),
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
        }
    )
    shown = sys.excepthook

    def hook(kind: type[BaseException], failure: BaseException, where: TracebackType | None) -> None:
        write_failure(Path(folder), int(rank), failure, where)
        shown(kind, failure, where)

    sys.excepthook = hook


def write_failure(folder: Path, rank: int, failure: BaseException, where: TracebackType | None) -> None:
    """Writes down what nobody has caught, for the launcher, which prints the first of all."""
    text = "".join(traceback.format_exception(type(failure), failure, where))
    report = {"rank": rank, "time": time.time(), "text": text, "interrupt": isinstance(failure, KeyboardInterrupt)}
    draft = folder / f"rank{rank}.draft"
    draft.write_text(lazy.json.dumps(report), encoding="utf-8")
    draft.rename(folder / f"rank{rank}.json")
