"""Where graphs end, as rows: the frames that are left, and how their values are built.

A frame is told by a function of its code, which stands where the rows say, and by the number of its next instruction.
Of recipes those steps are kept that say by their fields what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Protocol

from rushlight.capture.interpreter.frame import body_of
from rushlight.capture.resume.blueprint import Filler, Maker
from rushlight.capture.resume.breaks import KINDS, Reason
from rushlight.capture.resume.continuation import CONTENTS, Exit, FrameShape
from rushlight.capture.resume.recipe import (
    AS_GIVEN,
    Constant,
    Fill,
    FromState,
    Instance,
    Leaf,
    MadeOf,
    MethodOfC,
    Recipe,
    Step,
    method_of,
)

Row = list[Any]


class Encoder(Protocol):
    """Who writes rows."""

    def __call__(self, value: Any) -> int:
        """The number of the row of a value."""
        ...

    def all(self, values: Iterable[object]) -> list[int]:
        """The rows of values."""
        ...


class Decoder(Protocol):
    """Who has read rows."""

    objects: list[Any]

    def all(self, rows: Sequence[int]) -> list[Any]:
        """The objects of rows."""
        ...


class Unwritable(Exception):
    """An end cannot be written, for this reason."""


def exit_row(encoder: Encoder, value: Exit, function_of: Callable[[CodeType], FunctionType | None]) -> Row:
    """An end; `function_of` gives a function that has some code. Errors: Unwritable."""
    shapes = [_shape(encoder, at, shape, function_of(shape.body.raw)) for at, shape in enumerate(value.shapes)]
    recipe = None if value.recipe is AS_GIVEN else _recipe(encoder, value.recipe)
    reason = None if value.reason is None else [value.reason.kind.code, value.reason.detail]
    fruitful = [function for code in value.fruitful if (function := function_of(code)) is not None]
    numbers = [value.instructions, value.calls, value.result, value.kept, value.saves]
    return ["exit", shapes, recipe, [*value.written], reason, encoder.all(fruitful), numbers]


def read_exit(
    decoder: Decoder,
    shapes: list[Row],
    recipe: Row | None,
    written: list[str],
    reason: list[str] | None,
    fruitful: list[int],
    numbers: list[Any],
) -> Exit:
    """The end that a row tells."""
    return Exit(
        tuple([_read_shape(decoder, at, *shape) for at, shape in enumerate(shapes)]),
        AS_GIVEN if recipe is None else _read_recipe(decoder, *recipe),
        tuple([CONTENTS if name == CONTENTS else name for name in written]),
        None if reason is None else Reason(KINDS[reason[0]], reason[1]),
        numbers[0],
        numbers[1],
        numbers[2],
        numbers[3],
        frozenset([function.__code__ for function in decoder.all(fruitful)]),
        numbers[4],
    )


def _shape(encoder: Encoder, at: int, shape: FrameShape, function: FunctionType | None) -> Row:
    if function is None or function.__globals__ is not shape.globals:
        raise Unwritable(f"a frame of {shape.body.raw.co_qualname}, to which no name leads")
    if at == 0 and [*(function.__closure__ or ())] != [*(shape.closure or ())]:
        raise Unwritable("a frame with another closure")
    return [encoder(function), shape.position, shape.locals, shape.stack, [*shape.named]]


def _read_shape(
    decoder: Decoder, at: int, function: int, position: int, locals_: int, stack: int, named: list[str]
) -> FrameShape:
    found: FunctionType = decoder.objects[function]
    closure = None if at else found.__closure__
    name, qualified = named
    return FrameShape(body_of(found.__code__), found.__globals__, closure, position, locals_, stack, (name, qualified))


def _recipe(encoder: Encoder, recipe: Recipe) -> Row:
    if recipe.generators:
        raise Unwritable("a generator that has begun")
    return [[_step(encoder, step) for step in recipe.steps], recipe.roots]


def _step(encoder: Encoder, step: Step) -> Row:
    if isinstance(step, Leaf):
        return ["leaf", step.place]
    if isinstance(step, FromState):
        return ["state", step.slot]
    if isinstance(step, Constant):
        return ["constant", encoder(step.value)]
    if isinstance(step, MethodOfC):
        return ["method", step.owner, encoder(step.cls), step.name]
    if isinstance(step, MadeOf) and step.make in (tuple, frozenset, method_of):
        return ["made", step.places, encoder(step.make)]
    if isinstance(step, Instance) and isinstance(step.make, Maker):
        return ["instance", step.cls, step.first, encoder(step.make.base)]
    if isinstance(step, Fill) and isinstance(step.fill, Filler):
        filling = step.fill
        slots = [[*slot] for slot in filling.slots]
        return ["fill", step.place, step.parts, encoder(filling.base), filling.count, [*filling.names], slots]
    raise Unwritable("a result that is built of a function, a cell or an iterator")


def _read_recipe(decoder: Decoder, steps: list[Row], roots: list[int]) -> Recipe:
    return Recipe([_STEPS[kind](decoder, *parts) for kind, *parts in steps], roots)


def _read_fill(
    decoder: Decoder, place: int, parts: list[int], base: int, count: int, names: list[str], slots: Sequence[Any]
) -> Step:
    pairs = tuple([(depth, name) for depth, name in slots])
    return Fill(place, parts, Filler(decoder.objects[base], count, tuple(names), pairs))


_STEPS: Mapping[str, Callable[..., Step]] = {
    "leaf": lambda decoder, place: Leaf(place),
    "state": lambda decoder, slot: FromState(slot),
    "constant": lambda decoder, row: Constant(decoder.objects[row]),
    "made": lambda decoder, places, make: MadeOf(places, decoder.objects[make]),
    "method": lambda decoder, owner, cls, name: MethodOfC(owner, decoder.objects[cls], name),
    "instance": lambda decoder, cls, first, base: Instance(cls, first, Maker(decoder.objects[base])),
    "fill": _read_fill,
}
