"""A rank of `spawn(..., engine="mpi")`: reads what to call, and writes what it returned or raised."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from multiprocessing import spawn as processes
from pathlib import Path
from typing import Any

from rushlight.distributed.group import get_rank, init_process_group
from rushlight.distributed.launch.program import prepare

PROGRAM, CALL = "program.pickle", "call.pickle"


def write_call(folder: Path, function: Callable[..., object], args: tuple[object, ...]) -> None:
    """Writes down a call, and the module that the program runs as `__main__`."""
    program = processes.get_preparation_data("rank")
    program.pop("authkey")
    (folder / PROGRAM).write_bytes(pickle.dumps(program))
    (folder / CALL).write_bytes(pickle.dumps((function, args)))


def read(path: Path) -> Any:
    """What a rank has written."""
    return pickle.loads(path.read_bytes())  # noqa: S301 - of a process of this job


def main(folder: Path) -> None:
    """Runs the call on this rank."""
    prepare()
    init_process_group("mpi")
    processes.prepare(read(folder / PROGRAM))  # before the call, which may name what the program defines
    function, args = read(folder / CALL)
    try:
        result = function(*args)
    except Exception as failure:
        (folder / f"error{get_rank()}").write_bytes(pickle.dumps(failure))
        raise
    (folder / f"result{get_rank()}").write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
