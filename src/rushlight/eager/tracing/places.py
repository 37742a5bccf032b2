"""Traced control flow inside `vmap`: what goes into a body and comes out of it has all places in front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.eager.batching.levels import level_of, lower_to, raise_to
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle, fail_without_data
from rushlight.eager.pytree import map_tree
from rushlight.eager.tracing.loops import traced_while
from rushlight.ops import OPERATORS

Leaves = list[Any]
Step = Callable[[Leaves, Leaves], tuple[Leaves, object]]


def with_places(tree: object) -> Any:
    """Tensors with all levels as dims in front."""
    levels = STATE.maps
    return map_tree(lambda leaf: lower_to(leaf, levels) if isinstance(leaf, Handle) else leaf, tree)


def of_each_place(tree: object) -> Any:
    """What `with_places` made, as it is inside."""
    levels = STATE.maps
    return map_tree(lambda leaf: raise_to(leaf, levels) if isinstance(leaf, Handle) else leaf, tree)


def scan_of_places(
    run: Callable[[Step, Leaves, Leaves], tuple[Leaves, object]], step: Step, carries: Leaves, xs: Leaves
) -> tuple[Leaves, Any]:
    """The scan that `run` traces, with a step of whole batches inside `vmap`."""
    depth = len(STATE.maps)
    if not depth:
        return run(step, carries, xs)

    def whole_step(carries: Leaves, parts: Leaves) -> tuple[Leaves, object]:
        following, outputs = step(of_each_place(carries), of_each_place(parts))
        return with_places(following), with_places(outputs)

    slices = [moved(x, depth, 0) for x in with_places(xs)]
    last, outputs = run(whole_step, with_places(carries), slices)
    return of_each_place(last), of_each_place(map_tree(lambda y: moved(y, 0, depth), outputs))


class _Grown(Exception):
    """A step gave another value for each place where what is carried was one for all."""


def while_of_places(
    goes_on: Callable[[Leaves], object], following: Callable[[Leaves], Leaves], leaves: Leaves
) -> Leaves:
    """A traced `while_loop`, with whole batches of what differs from place to place."""
    if not STATE.maps:
        return traced_while(goes_on, following, leaves)
    differs = [_differs(leaf) for leaf in leaves]

    def inside(values: Sequence[object]) -> Leaves:
        return [of_each_place(value) if one else value for value, one in zip(values, differs, strict=True)]

    def question(values: Leaves) -> object:
        answer = goes_on(inside(values))
        if isinstance(answer, Handle) and _differs(answer):
            fail_without_data(answer)
        return answer

    def whole_step(values: Leaves) -> Leaves:
        after = following(inside(values))
        for position, value in enumerate(after):
            if _differs(value) and not differs[position]:
                differs[position] = True
                raise _Grown
        return [with_places(value) if one else value for value, one in zip(after, differs, strict=True)]

    while True:
        wholes = [with_places(leaf) if one else leaf for leaf, one in zip(leaves, differs, strict=True)]
        try:
            return inside(traced_while(question, whole_step, wholes))
        except _Grown:
            continue


def _differs(value: object) -> bool:
    return level_of(value) is not None


def moved(tensor: object, source: int, target: int) -> Any:
    """A tensor with a dim at another place."""
    return tensor if source == target else OPERATORS["movedim"](tensor, source, target)
