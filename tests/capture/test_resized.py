"""Lists, sets and deques whose length one graph changes: as in eager code at each call, or not at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl


def popped(x: Any, items: list[Any]) -> Any:
    last = items.pop()
    return x * last + len(items)


def refilled(x: Any, items: list[Any]) -> Any:
    items.clear()
    items.extend([1, x * 2])
    items.insert(0, 5)
    return x * items[0] + items[2]


def reordered(x: Any, items: list[Any]) -> Any:
    items.sort(reverse=True)
    items.remove(2)
    del items[0]
    items[0:0] = [9, 8]
    items += [2]
    items.append(3)
    return x * items[0] + sum(items)


def emptied(x: Any, items: list[Any]) -> Any:
    if len(items) > 4:
        items.clear()
    items.append(x.sum())
    return x + items[-1] + len(items)


def windowed(x: Any, items: list[Any]) -> Any:
    items.append(x * 2)
    old = items.pop(0)
    return x + old + items[0]


def turned(x: Any, items: list[Any]) -> Any:
    items.append(items.pop(0))
    return x * items[0]


def collected(x: Any, items: set[Any]) -> Any:
    items.add(3)
    items.discard(1)
    items.update([4, x.shape[0]])
    return x * len(items) + (1 if 3 in items else 0)


def toggled(x: Any, items: set[Any]) -> Any:
    if 7 in items:
        items.clear()
    else:
        items |= {7, 8}
    return x * 2


def queued(x: Any, items: deque[Any]) -> Any:
    items.append(x * 2)
    items.appendleft(items.pop())
    first = items.popleft()
    items.rotate(1)
    return x + first + len(items)


RESIZED: list[tuple[Callable[[Any, Any], Any], Callable[[], Any]]] = [
    (popped, lambda: [1, 2, 3, 4, 5]),
    (refilled, lambda: [1]),
    (reordered, lambda: [3, 1, 2]),
    (emptied, list[Any]),
    (windowed, lambda: [rl.ones(2), rl.ones(2) * 2]),
    (turned, lambda: [1, 2, 3]),
    (collected, lambda: {1, 2}),
    (toggled, lambda: {1}),
    (queued, lambda: deque([1, 2, 3], maxlen=4)),
]


@pytest.mark.parametrize(("change", "made"), RESIZED, ids=lambda part: getattr(part, "__name__", ""))
def test_one_graph_changes_the_length_of_what_it_reaches(change: Callable[[Any, Any], Any], made: Any) -> None:
    one, other = made(), made()
    same = one
    compiled = rl.compile(lambda x: (change(x, one), one is same), fullgraph=True)
    for at in range(5):
        x = rl.ones(2) * at
        result, is_same = compiled(x)
        assert is_same and result.tolist() == change(x, other).tolist()
        assert repr(one) == repr(other)
    if change in (refilled, windowed):
        assert rl.compiler.graph_count() <= 2


def test_a_change_of_length_is_taken_back_where_the_call_fails() -> None:
    items, kept = [1, 2, 3], {1}

    def function(x: Any) -> Any:
        items.pop()
        items.insert(0, 9)
        kept.add(2)
        return x @ rl.ones(3)

    compiled = rl.compile(function, fullgraph=True)
    compiled(rl.ones(3))
    assert items == [9, 1, 2] and kept == {1, 2}
    with pytest.raises(rl.RushlightError):
        compiled(rl.ones(2))
    assert items == [9, 1, 2] and kept == {1, 2}
