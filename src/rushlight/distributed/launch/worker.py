"""A rank of `spawn(..., engine="mpi")`: reads what to call, and writes what it returned or raised."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from multiprocessing import spawn as processes
from pathlib import Path
from typing import Any

from rushlight.data.sharing import pickled_for_programs
from rushlight.distributed.engine.mpi import connected
from rushlight.distributed.group import ProcessGroup, enter
from rushlight.distributed.launch.program import prepare
from rushlight.ir.process_group import DEFAULT

PROGRAM, CALL = "program.pickle", "call.pickle"


def write_call(folder: Path, function: Callable[..., object], args: tuple[object, ...]) -> None:
    """Writes down a call, and the module that the program runs as `__main__`."""
    program = processes.get_preparation_data("rank")
    program.pop("authkey")
    (folder / PROGRAM).write_bytes(pickle.dumps(program))
    (folder / CALL).write_bytes(pickled_for_programs((function, args)))


def read(path: Path) -> Any:
    """What a rank has written."""
    return pickle.loads(path.read_bytes())  # noqa: S301 - of a process of this job


def main(folder: Path) -> None:
    """Runs the call on this rank. It may make the default group, which is there, and destroy it."""
    prepare()
    group = ProcessGroup(DEFAULT, connected(), "mpi", given=True)
    enter(group)
    processes.prepare(read(folder / PROGRAM))  # before the call, which may name what the program defines
    function, args = read(folder / CALL)
    try:
        result = function(*args)
    except Exception as failure:
        (folder / f"error{group.rank}").write_bytes(pickle.dumps(failure))
        raise
    (folder / f"result{group.rank}").write_bytes(pickle.dumps(result))
