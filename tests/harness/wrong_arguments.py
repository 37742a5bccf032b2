"""Calls of operators with wrong arguments: attributes and operands of samples, each changed in every way listed here.

A rule that types a call either refuses it with a registered error, or the call has to run: on the interpreter, to which
a load or a write outside a buffer is an error, where a kernel would touch memory that is not its own.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from matrix_cases import Leaf, map_leaves, sample_arguments
from opcheck import Eager, World, nested, outputs_of, type_of
from rushlight.ir.dtype import BY_NAME
from rushlight.ops import OPERATORS
from rushlight.ops.record import Operator
from rushlight.support.errors import RushlightError

SAMPLES = 4
MOST_ELEMENTS = 1 << 16
INTS = (-1, 0, 1, 2, 7, -3, 1 << 31, -(1 << 31))
FLOATS = (0.0, -1.0, 3.0, -0.5, float("nan"), float("inf"), 1e308)
TEXTS = ("", "text", "mean", "sum", "none", "reflect", "constant", "replicate", "circular", "amax")
DTYPES = ("bool", "int8", "int64", "float16", "float64", "complex64")
LISTS = ((), (-1,), (0,), (1,), (7,), (0, 0), (1, 1), (-1, -1), (-2, 5), (1 << 31, 1 << 31), (0, 1, 2), (1,) * 5)


class WrongCall(NamedTuple):
    """One call: what was changed in which sample, and the arguments."""

    change: str
    operands: tuple[Any, ...]
    attrs: dict[str, Any]


class _TooLarge(Exception):
    """A result has more elements than a test computes."""


class _Interpreted(World):
    """Runs primitives on the interpreter; results of many elements are not computed."""

    def compute(self, op, args, attrs):
        inferred = op.infer(nested(args, lambda item: item.type if isinstance(item, Eager) else type_of(item)), attrs)
        for type_ in outputs_of(inferred):
            if np.prod([float(size) for size in type_.shape]) > MOST_ELEMENTS:
                raise _TooLarge
        return super().compute(op, args, attrs)


def values_of(kind: str, given: Any) -> Iterator[Any]:
    """Values of the schema's type of an attribute, most of them wrong."""
    if kind.endswith("?"):
        yield None
    kind = kind.rstrip("?")
    items = given if isinstance(given, tuple) else ()
    if kind in ("int", "Size", "Offset", "SizePlace"):
        yield from INTS
        if isinstance(given, int):
            yield from (given + 1, given - 1)
    elif kind in ("int[]", "Size[]"):
        yield from LISTS
        yield from _changed(items, lambda item: (*INTS, item + 1, item - 1, 3 * item) if isinstance(item, int) else ())
    elif kind in ("any", "static"):
        yield from (None, 0, -1, 5, 1.5, "text", *LISTS)
        yield from _changed(items, lambda item: (None, *INTS, (0, 5, 1), (-1, 1)))
        for at, inner in enumerate(items):
            for other in _changed(inner if isinstance(inner, tuple) else (), lambda item: (None, *INTS)):
                yield (*items[:at], other, *items[at + 1 :])
    else:
        yield from {"float": FLOATS, "bool": (True, False), "str": TEXTS}.get(kind, ())
        yield from [BY_NAME[name] for name in DTYPES] if kind == "DType" else ()


def _changed(items: tuple[Any, ...], others: Any) -> Iterator[tuple[Any, ...]]:
    """The items with one replaced, one more, one less and turned round."""
    for at, item in enumerate(items):
        for other in others(item):
            yield (*items[:at], other, *items[at + 1 :])
    if items:
        yield from ((*items, items[-1]), items[:-1], items[::-1])


def arrays_of(leaf: Leaf) -> Iterator[np.ndarray]:
    """An operand with other sizes, another dtype, or, if it holds indices, with others."""
    array = leaf.array
    if array.ndim:
        yield from (array[:1], array[:0], array[None], array.max(0, initial=0), np.concatenate([array, array], 0))
        yield from (array[..., :1], array[..., :0], np.concatenate([array, array], -1), np.swapaxes(array, 0, -1))
    else:
        yield from (array[None], np.broadcast_to(array, (3, 2)))
    if leaf.role == "index":
        array = array.astype(np.int64)
        yield from (array + 1000, array - 1000, array * 0 + (1 << 31), array.astype(np.uint8), array.astype("f4"))
    else:
        yield from (np.ones(array.shape, np.int64), np.ones(array.shape, np.bool_))


def wrong_calls(op: str) -> Iterator[WrongCall]:
    """The calls of an operator; what was changed tells them apart."""
    parameters = OPERATORS[op].schema.attributes
    for position, arguments in enumerate(sample_arguments(op)[:SAMPLES]):
        for parameter in parameters:
            for value in values_of(parameter.type, arguments.attrs[parameter.name]):
                attrs = {**arguments.attrs, parameter.name: value}
                yield WrongCall(f"s{position} {parameter.name}={value}", arguments.operands, attrs)
        for at, leaf in enumerate(arguments.leaves()):
            for number, array in enumerate(arrays_of(leaf)):
                new = Leaf(array, leaf.role)
                operands = map_leaves(arguments.operands, lambda item, old=leaf, new=new: new if item is old else item)
                yield WrongCall(f"s{position} operand {at}/{number}", operands, arguments.attrs)


def outcome(op: Operator, call: WrongCall) -> str | None:
    """What is wrong with how a call ends; None for a registered error, or where it runs inside its buffers."""
    world = _Interpreted("lower")
    operands = world.lift(map_leaves(call.operands, lambda leaf: leaf.array))
    try:
        with np.errstate(all="ignore"):
            world.apply(op, operands, call.attrs)
    except RushlightError as problem:
        return f"{problem.code} {problem.message}" if problem.code.startswith("X") else None
    except (_TooLarge, MemoryError):
        return None
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return None
