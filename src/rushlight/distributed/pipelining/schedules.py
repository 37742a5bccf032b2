"""Schedules of pipelines as tables: for each rank the actions that it takes, in order.

An action is a forward (F) or a backward (B) of one microbatch through one stage. A backward may be taken in two: the
gradients of the stage's inputs (I), for which the stage before waits, and later those of its weights (W).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from rushlight.support.errors import fail
from rushlight.support.frozen import frozen


@frozen
class Action:
    """What a rank does with one microbatch at one stage: `kind` is F, B, I or W."""

    stage: int
    kind: str
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


Table = list[list[Action]]
"""The actions of each rank."""
Home = Callable[[int], int]
"""The rank of a stage."""


def in_turn(ranks: int) -> Home:
    """Return the placement of stage `s` at rank `s % ranks`."""
    return lambda stage: stage % ranks


def in_a_v(ranks: int) -> Home:
    """Return the placement of two stages at each rank: to the last rank, and back to the first one."""
    return lambda stage: min(stage, 2 * ranks - 1 - stage)


def gpipe(ranks: int, microbatches: int) -> Table:
    """Return the table of all forwards, then all backwards: simple, and it keeps every microbatch's activations.

    Huang et al., GPipe, 2019.
    """
    return breadth_first(ranks, microbatches, 1)


def one_forward_one_backward(ranks: int, microbatches: int) -> Table:
    """Return the table in which forwards and backwards alternate as soon as the pipeline is full.

    A rank keeps the activations of as many microbatches as there are ranks from it on. Narayanan et al., PipeDream,
    2019; 1F1B in its flushing form.
    """
    table: Table = []
    for rank in range(ranks):
        ahead = min(ranks - rank, microbatches)
        row = [Action(rank, "F", at) for at in range(ahead)]
        for at in range(microbatches):
            row.append(Action(rank, "B", at))
            if at + ahead < microbatches:
                row.append(Action(rank, "F", at + ahead))
        table.append(row)
    return table


def interleaved(ranks: int, microbatches: int, stages_per_rank: int) -> Table:
    """Return the table of 1F1B with several stages at each rank.

    Idle times are shorter by their number. Narayanan et al., Megatron-LM, 2021. A002 unless the microbatches divide by
    the ranks.
    """
    if microbatches % ranks:
        fail(
            "A002",
            "pipelining: as many microbatches as a multiple of the ranks",
            ranks=ranks,
            microbatches=microbatches,
        )
    total = microbatches * stages_per_rank

    def forward(rank: int, number: int) -> Action:
        group, place = divmod(number, ranks * stages_per_rank)
        chunk, at = divmod(place, ranks)
        return Action(chunk * ranks + rank, "F", group * ranks + at)

    def backward(rank: int, number: int) -> Action:
        group, place = divmod(number, ranks * stages_per_rank)
        chunk, at = divmod(place, ranks)
        return Action((stages_per_rank - 1 - chunk) * ranks + rank, "B", group * ranks + at)

    table: Table = []
    for rank in range(ranks):
        ahead = min((stages_per_rank - 1) * ranks + 2 * (ranks - rank - 1) + 1, total)
        row = [forward(rank, number) for number in range(ahead)]
        for number in range(total):
            row.append(backward(rank, number))
            if number + ahead < total:
                row.append(forward(rank, number + ahead))
        table.append(row)
    return table


def zero_bubble(ranks: int, microbatches: int) -> Table:
    """Return the table of 1F1B whose backwards are taken in two: gradients of weights fill what would be idle times.

    Qi et al., Zero Bubble Pipeline Parallelism, 2024; its schedule ZB-H1, with the memory of 1F1B.
    """
    table: Table = []
    for rank in range(ranks):
        ahead = min(ranks - rank, microbatches)
        row = [Action(rank, "F", at) for at in range(ahead)]
        waiting: deque[Action] = deque()
        for at in range(microbatches):
            row.append(Action(rank, "I", at))
            waiting.append(Action(rank, "W", at))
            if len(waiting) > rank:  # the later a rank, the more of its weights' gradients come at the end
                row.append(waiting.popleft())
            if at + ahead < microbatches:
                row.append(Action(rank, "F", at + ahead))
        table.append([*row, *waiting])
    return table


def breadth_first(ranks: int, microbatches: int, stages_per_rank: int) -> Table:
    """Return the table in which a rank takes all microbatches through a stage before the next one.

    Lamy-Poirier, Breadth-First Pipeline Parallelism, 2022.
    """

    def row(rank: int, kind: str, chunks: Sequence[int]) -> list[Action]:
        return [Action(chunk * ranks + rank, kind, at) for chunk in chunks for at in range(microbatches)]

    chunks = range(stages_per_rank)
    return [row(rank, "F", chunks) + row(rank, "B", chunks[::-1]) for rank in range(ranks)]


def filled(ranks: int, microbatches: int, stages: int, home: Home) -> Table:
    """Return a table without avoidable idle times, for any placement of stages: backwards are taken in two.

    In each round a rank takes what others wait for, gradients of inputs first, then forwards of its deepest stage, and
    else gradients of weights. Stage `s` runs at most `stages - s` microbatches ahead of their gradients of inputs, as
    in 1F1B: so all ranks of a V keep as much. A rank puts off at most `stages` gradients of weights, more than
    `zero_bubble` does. Qi et al., Pipeline Parallelism with Controllable Memory, 2024.
    """
    own = [[stage for stage in range(stages) if home(stage) == rank] for rank in range(ranks)]
    counts = {(stage, kind): 0 for stage in range(stages) for kind in "FIW"}
    done: set[Action] = set()
    table: Table = [[] for _ in range(ranks)]

    def next_of(rank: int) -> Action | None:
        late = sum([counts[stage, "I"] - counts[stage, "W"] for stage in own[rank]]) >= stages
        for kind in "WIF" if late else "IFW":
            for stage in reversed(own[rank]):
                at = counts[stage, kind]
                full = kind == "F" and at - counts[stage, "I"] >= stages - stage
                if at < microbatches and not full and _is_ready(Action(stage, kind, at), done, stages):
                    return Action(stage, kind, at)
        return None

    while any(chosen := [next_of(rank) for rank in range(ranks)]):
        for row, action in zip(table, chosen, strict=True):
            if action is not None:
                row.append(action)
                counts[action.stage, action.kind] += 1
                done.add(action)
    return table


def check(table: Table, stages: int) -> int:
    """Return in how many rounds a table runs to its end, if each action takes one and messages none.

    W040 where the ranks would wait for each other for ever, or an action is missing or there twice: the error names the
    actions at which they stand.
    """
    places = [0] * len(table)
    done: set[Action] = set()
    rounds = 0
    while any(place < len(row) for place, row in zip(places, table, strict=True)):
        ready = [
            rank
            for rank, row in enumerate(table)
            if places[rank] < len(row) and _is_ready(row[places[rank]], done, stages)
        ]
        if not ready:
            stuck = [str(row[place]) for place, row in zip(places, table, strict=True) if place < len(row)]
            fail("W040", "pipelining: the ranks of this schedule wait for each other", stand_at=stuck)
        for rank in ready:
            done.add(table[rank][places[rank]])
            places[rank] += 1
        rounds += 1
    _check_complete(table, stages)
    return rounds


def _is_ready(action: Action, done: set[Action], stages: int) -> bool:
    stage, at = action.stage, action.microbatch
    if action.kind == "F":
        return stage == 0 or Action(stage - 1, "F", at) in done
    if action.kind == "W":
        return Action(stage, "I", at) in done
    after = stage + 1
    from_after = after == stages or Action(after, "B", at) in done or Action(after, "I", at) in done
    return Action(stage, "F", at) in done and from_after


def _check_complete(table: Table, stages: int) -> None:
    found = sorted([str(action) for row in table for action in row])
    microbatches = {action.microbatch for row in table for action in row}
    split = any(action.kind == "I" for row in table for action in row)
    kinds = "FIW" if split else "FB"
    wanted = sorted([f"{stage}{kind}{at}" for stage in range(stages) for kind in kinds for at in microbatches])
    if found != wanted:
        odd = sorted(set(found) ^ set(wanted)) or [one for one in found if found.count(one) > 1]
        fail("W040", "pipelining: a schedule has each action once", wrong=odd[:6])


def text_of(table: Sequence[Sequence[Action]]) -> str:
    """Return a table as text, a line for each rank."""
    return "\n".join([f"rank {rank}: " + " ".join(map(str, row)) for rank, row in enumerate(table)])
