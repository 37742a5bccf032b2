"""`torch.nn.modules.utils`: numbers repeated for each dim of a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["_list_with_default", "_ntuple", "_pair", "_quadruple", "_reverse_repeat_tuple", "_single", "_triple"]


def _ntuple(n: int, name: str = "parse") -> Callable[[object], tuple[object, ...]]:
    """Return a function that repeats a number `n` times, and makes a tuple of what can be iterated."""

    def parse(x: object) -> tuple[object, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[object, ...], n: int) -> tuple[object, ...]:
    """Return the elements in reverse order, each `n` times."""
    return tuple([element for element in reversed(t) for _ in range(n)])


def _list_with_default(out_size: list[int | None], defaults: list[int]) -> list[int]:
    """Return sizes, with the last of `defaults` in place of None."""
    pairs = zip(out_size, defaults[-len(out_size) :], strict=True)
    return [default if size is None else size for size, default in pairs]
