"""Which sizes a program needs, and which of them its inputs show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.ir.dtype import int64
from rushlight.ir.graph import Call, parameter
from rushlight.ir.type import TensorType
from rushlight.sym import SizeExpr, free_symbols, is_symbol


def symbols_in(parts: Iterable[Any]) -> list[SizeExpr]:
    """The symbols in types, sizes and attribute values, each once, in order of appearance."""
    found: dict[SizeExpr, None] = {}
    stack = list(parts)[::-1]
    while stack:
        item = stack.pop()
        if isinstance(item, SizeExpr):
            found.update(dict.fromkeys(free_symbols(item)))
        elif isinstance(item, TensorType):
            stack.extend((*reversed(item.strides), *reversed(item.shape)))
        elif isinstance(item, tuple):
            stack.extend(reversed(item))
    return list(found)


def hidden_symbols(shown: Iterable[TensorType], parts: Iterable[Any]) -> tuple[SizeExpr, ...]:
    """The symbols that types and attribute values (`parts`) need and no type in `shown` has as a size or stride."""
    shown = list(shown)
    known = {size for type_ in shown for size in (*type_.shape, *type_.strides)}
    return tuple([symbol for symbol in symbols_in([*shown, *parts]) if symbol not in known])


def bind_symbols(type_: TensorType, shape: Iterable[int], strides: Iterable[int], symbols: dict[SizeExpr, int]) -> None:
    """Notes the values that a tensor's sizes and strides give to the symbols of its type; first come, first kept."""
    for size, found in zip((*type_.shape, *type_.strides), (*shape, *strides), strict=True):
        if isinstance(size, SizeExpr) and is_symbol(size):
            symbols.setdefault(size, found)


def sizes_parameter(symbols: tuple[SizeExpr, ...]) -> Call:
    """An input without elements, whose shape tells the sizes: how they travel where no tensor shows them."""
    return parameter("sizes", TensorType(symbols, int64, strides=(0,) * len(symbols)))
