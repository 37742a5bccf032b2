"""Walkers over terms. All are iterative: a training step is deeper than the recursion limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from rushlight.term.term import Term

T = TypeVar("T", bound=Term)


def postorder(roots: Iterable[T], into: Callable[[T], Iterable[T]] | None = None) -> Iterator[T]:
    """Each term reachable from the roots once, operands before users, in a deterministic order.

    `into(term)` names the terms to descend to; by default the operands.
    """
    done: set[int] = set()
    stack = list(roots)
    stack.reverse()
    while stack:
        term = stack[-1]
        key = id(term)
        if key in done:
            stack.pop()
            continue
        below = term.operands if into is None else into(term)
        waiting = [operand for operand in below if id(operand) not in done]
        if waiting:
            # The term stays on the stack and is looked at again when its operands are done.
            waiting.reverse()
            stack.extend(waiting)
        else:
            stack.pop()
            done.add(key)
            yield term


def leaves(roots: Iterable[T]) -> list[T]:
    """The terms without operands, each once, in postorder."""
    return [term for term in postorder(roots) if not term.operands]


def map_terms(roots: Iterable[T], rebuild: Callable[[T, tuple[T, ...]], T]) -> list[T]:
    """Rebuilds terms bottom-up: `rebuild(term, new_operands)` gives each term's image; returns the roots' images."""
    roots = list(roots)
    image: dict[int, T] = {}
    for term in postorder(roots):
        image[id(term)] = rebuild(term, tuple(image[id(operand)] for operand in term.operands))
    return [image[id(root)] for root in roots]


def substitute(roots: Iterable[T], images: Mapping[T, T], rebuild: Callable[[T, tuple[T, ...]], T]) -> list[T]:
    """`map_terms`, with the terms in `images` replaced and nothing below them visited."""
    roots = list(roots)
    image: dict[int, T] = {id(term): new for term, new in images.items()}
    for term in postorder(roots, lambda term: () if id(term) in image else term.operands):
        if id(term) in image:
            continue
        operands = tuple(image[id(operand)] for operand in term.operands)
        same = all(new is old for new, old in zip(operands, term.operands, strict=True))
        image[id(term)] = term if same else rebuild(term, operands)
    return [image[id(root)] for root in roots]
