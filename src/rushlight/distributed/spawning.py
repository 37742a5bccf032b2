"""`spawn`: a function on N ranks, from a program, a notebook or a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from rushlight.distributed.engine.engine import Engine
from rushlight.distributed.engine.threads import Interrupted, Threads, World
from rushlight.distributed.group import ProcessGroup, enter
from rushlight.ir.process_group import DEFAULT, own_registry
from rushlight.support.errors import require

T = TypeVar("T")


def spawn(
    function: Callable[..., T], n: int, args: Sequence[object] = (), engine: str = "threads", seed: int = 0
) -> list[T]:
    """Runs `function(*args)` on `n` ranks and returns what each returned, in the order of ranks.

    The default process group is there when the function begins: `spawn(lambda: dist.get_rank(), 2) == [0, 1]`. Of ranks
    that fail the error of the first is raised, with a note that names the rank. Threads run one at a time in an order
    that `seed` draws. Errors: A002 for an engine or a number of ranks that do not exist; W002 to W005.
    """
    require(isinstance(n, int) and n >= 1, "A002", "spawn: there is at least one rank", n=n)
    require(engine == "threads", "A002", "spawn: there is no such engine", engine=engine, hint="engine='threads'")
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
