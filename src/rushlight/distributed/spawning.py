"""`spawn`: a function on N ranks, from a program, a notebook or a test."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

from rushlight.distributed.engine.engine import Engine
from rushlight.distributed.engine.threads import Interrupted, Threads, World
from rushlight.distributed.engine.work import is_of_another
from rushlight.distributed.group import ProcessGroup, enter
from rushlight.distributed.launch import launch, worker
from rushlight.ir.process_group import DEFAULT, own_registry
from rushlight.support.errors import require

T = TypeVar("T")


def spawn(
    function: Callable[..., T], n: int, args: Sequence[object] = (), engine: str = "threads", seed: int = 0
) -> list[T]:
    """Runs `function(*args)` on `n` ranks and returns what each returned, in the order of ranks.

    The default process group is there when the function begins: `spawn(lambda: dist.get_rank(), 2) == [0, 1]`. Of ranks
    that fail the error of the first is raised, with a note that names the rank. Threads run one at a time in an order
    that `seed` draws. With `engine="mpi"` ranks are processes, which import the function and give results by pickles.
    Errors: A002 for an engine or a number of ranks that do not exist; W002 to W008.
    """
    require(isinstance(n, int) and n >= 1, "A002", "spawn: there is at least one rank", n=n)
    known = engine in ("threads", "mpi")
    require(known, "A002", "spawn: there is no such engine", engine=engine, hint="engine='threads', or 'mpi'")
    if engine == "mpi":
        return on_processes(function, n, tuple(args))
    return _on_threads(function, n, tuple(args), seed)


def _on_threads(function: Callable[..., T], n: int, args: tuple[object, ...], seed: int) -> list[T]:
    world = World(n, seed)
    results: list[T | None] = [None] * n
    circle = world.circle((), tuple(range(n)))

    def run(rank: int) -> None:
        world.baton.enter(rank)
        try:
            with own_registry():
                results[rank] = _run_rank(function, args, Threads(circle, rank))
        except Interrupted:
            pass
        except SystemExit as ended:
            if ended.code:
                world.fail(rank, ended)
        except BaseException as failure:  # noqa: BLE001 - raised by the thread that called
            world.fail(rank, failure)
        finally:
            world.baton.leave(rank)

    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}") for rank in range(n)]
    for thread in threads:
        thread.start()
    world.baton.start()
    try:
        world.baton.join()
    except BaseException:
        world.interrupted = True
        world.baton.join()
        raise
    finally:
        for thread in threads:
            thread.join()
    if world.failed is not None:
        rank, failure = world.failed
        failure.add_note(f"raised in rank {rank} of {n}")
        raise failure
    return cast(list[T], results)


def _run_rank(function: Callable[..., T], args: tuple[object, ...], engine: Engine) -> T:
    enter(ProcessGroup(DEFAULT, engine, engine.kind, given=True))
    return function(*args)


def on_processes(function: Callable[..., T], n: int, args: tuple[object, ...], runner: Sequence[str] = ()) -> list[T]:
    """Runs a function on processes that MPI connects.

    `runner` are words of Python's command before the module.
    """
    with tempfile.TemporaryDirectory(prefix="rushlight-spawn-") as name:
        folder = Path(name)
        worker.write_call(folder, function, args)
        status = launch([sys.executable, *runner, "-m", worker.__name__.rpartition(".")[0], name], n)
        paths = sorted(folder.glob("error*"), key=lambda path: path.stat().st_mtime)
        failures = {path.name.removeprefix("error"): worker.read(path) for path in paths}
        if failures:
            rank = min(failures, key=lambda rank: is_of_another(failures[rank]))
            failures[rank].add_note(f"raised in rank {rank} of {n}")
            raise failures[rank]
        require(status == 0, "W008", f"spawn: a rank of {n} has ended with status {status}")
        return [worker.read(folder / f"result{rank}") for rank in range(n)]
