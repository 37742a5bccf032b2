"""Which sizes a program needs, and which of them its inputs show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.ir.dtype import int64
from rushlight.ir.graph import Call, parameter
from rushlight.ir.type import TensorType, symbols_in
from rushlight.sym import SizeExpr, is_symbol


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
