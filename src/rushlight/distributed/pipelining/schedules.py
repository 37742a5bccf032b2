"""Schedules of pipelines as tables: for each rank the actions that it takes, in order.

An action is a forward (F) or a backward (B) of one microbatch through one stage. A backward may be taken in two: the
gradients of the stage's inputs (I), for which the stage before waits, and later those of its weights (W).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

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
"""The actions of each rank. Stage `s` of a pipeline of n ranks is at rank `s % n`."""


def gpipe(ranks: int, microbatches: int) -> Table:
    """Return the table of all forwards, then all backwards: simple, and it keeps every microbatch's activations.

    Huang et al., GPipe, 2019.
    """
    forwards = [[Action(rank, "F", at) for at in range(microbatches)] for rank in range(ranks)]
    backwards = [[Action(rank, "B", at) for at in range(microbatches)] for rank in range(ranks)]
    return [before + after for before, after in zip(forwards, backwards, strict=True)]


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
