"""Calls on tiny tensors: they measure the overhead of a call, not its kernel."""

from __future__ import annotations

from rushlight.bench.records import Case, normal


def add(count: int) -> Case:
    """The sum of `count` tensors of four elements, from left to right."""
    return Case(
        f"add-{count}-tensors-of-4",
        "overhead",
        "add",
        lambda rng: {f"x{number}": normal(rng, 4) for number in range(count)},
        flops=4.0 * (count - 1),
        bytes=16.0 * (count + 1),
    )


OVERHEAD: tuple[Case, ...] = (add(2), add(10))
