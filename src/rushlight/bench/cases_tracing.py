"""Programs with many data-dependent sizes: they measure the time of tracing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.bench.records import Case, Inputs, normal

EACH = 4  # elements of a part, on average


def unbind_split_flip_cat(rounds: int, parts: int) -> Case:
    """Splits a tensor into `parts` of unbacked lengths, flips them and joins them, `rounds` times."""

    def make(rng: np.random.Generator) -> Inputs:
        counts = rng.multinomial(EACH * parts, [1 / parts] * parts, size=rounds)
        return {"x": np.arange(EACH * parts), "counts": counts}

    return tracing("unbind-split-flip-cat", "unbind_split_flip_cat", make)


def sum_items(count: int) -> Case:
    """The sum of integers that are taken out one by one."""
    return tracing("sum-items", "sum_items", lambda rng: {"counts": rng.integers(0, 9, count)})


def join_selected(count: int) -> Case:
    """Selections from rows, joined one after another."""
    return tracing("join-selected", "join_selected", lambda rng: {"x": normal(rng, count, 2 * EACH)})


def tracing(name: str, program: str, make: Callable[[np.random.Generator], Inputs]) -> Case:
    """A case whose calls compute next to nothing."""
    return Case(name, "tracing", program, make, flops=0.0, bytes=0.0)


TRACING: tuple[Case, ...] = (unbind_split_flip_cat(40, 32), sum_items(400), join_selected(200))
