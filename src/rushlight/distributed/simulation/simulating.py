"""`sim`: a program on any number of ranks, of which a few run, without data, and whose time line is computed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Sequence

from rushlight.distributed.simulation.classes import find_classes
from rushlight.distributed.simulation.costs import Costs, Link, read_tables
from rushlight.distributed.simulation.recording import Doing, Event, Trace, record
from rushlight.distributed.simulation.result import Simulation
from rushlight.distributed.simulation.timeline import Timeline
from rushlight.runtime import pool
from rushlight.runtime.limits import available_cores
from rushlight.support.errors import require


def sim(
    program: Callable[[], object],
    world: int,
    *,
    machine_ranks: int | None = None,
    processors: int | None = None,
    link: Link | None = None,
    classes: Callable[[int], Hashable] | None = None,
    seed: int = 0,
) -> Simulation:
    """Simulates `program` on `world` ranks: one rank of each class runs on the fake engine, on one thread.

    Computing takes the processor time that it takes here, collectives what `rushlight tune collectives` has measured
    (or what is assumed), between machines what `link` says. A machine has `machine_ranks` ranks and as many
    `processors` as this one. Where the program passes `distributed.mark()` at least twice, the last step's calls are
    simulated, with the median of all steps' computing; else the whole program. `classes` says which ranks are alike;
    by default the program's groups tell. Errors: W002, W003 and W004 where ranks disagree, wait for each
    other, or have returned; A002 where ranks of a class differ.

        print(dist.sim(train, world=4096))
    """
    require(isinstance(world, int) and world >= 1, "A002", "sim: there is at least one rank", world=world)
    processors = processors or available_cores()
    machine_ranks = machine_ranks or min(world, processors)
    threads = pool.get_num_threads()
    pool.set_num_threads(1)
    try:
        record(program, 0, world)  # what is compiled at first is not what a rank takes
        found = find_classes(world, lambda rank: record(program, rank, world), classes, seed)
    finally:
        pool.set_num_threads(threads)
    tables = read_tables()
    costs = Costs(tables, machine_ranks, link)
    everywhere = processors * -(-world // machine_ranks)
    whole = Timeline(found, [one.trace.events for one in found], costs, everywhere)
    whole.run()
    steps = [_last_step(one.trace) for one in found]
    if all(steps):
        timeline = Timeline(found, [step for step in steps if step], costs, everywhere)
        timeline.run()
    else:
        timeline = whole
    return Simulation(world, timeline, measured=bool(tables))


def _last_step(trace: Trace) -> Sequence[Event] | None:
    """What a rank does between its last two marks, with the median computing time of such steps."""
    steps = trace.steps
    if not steps:
        return None
    last = steps[-1]
    same = [step for step in steps if _kinds(step) == _kinds(last)][-9:]
    return [
        event._replace(seconds=statistics.median([step[at].seconds for step in same])) for at, event in enumerate(last)
    ]


def _kinds(step: Sequence[Event]) -> list[Doing]:
    return [event.doing for event in step]
