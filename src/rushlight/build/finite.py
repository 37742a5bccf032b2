"""Running a graph call by call and stopping at the first that makes a NaN or an infinity: `RUSHLIGHT_NAN_ASSERTS=1`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from rushlight.build.reference import Array, elements
from rushlight.build.steps import Step, StepExecutable, Symbols, Value, ViewStep
from rushlight.ir.graph import NUMBER, RESULT, Call
from rushlight.support.errors import fail


class FiniteExecutable(StepExecutable):
    """A graph whose calls are checked. Inputs may hold NaN or infinity: a mask of -inf is no mistake."""

    __slots__ = ()

    def run_step(
        self, step: Step | ViewStep, values: dict[int, Value], symbols: Symbols, given: Mapping[int, Value]
    ) -> None:
        """Runs a step. Error R001 if a result holds NaN or infinity and no operand does."""
        step.run(values, symbols, given)
        if isinstance(step, Step):
            made = step.results[0].operands[0] if step.results[0].op is RESULT else step.results[0]
            check_made(made, step.results, values)


def check_made(call: Call, results: Iterable[Call], values: Mapping[int, Value]) -> None:
    """R001 when results have NaN and no operand has, or infinity and all operands are finite."""
    given = worst([_of_operand(operand, values) for operand in call.inputs()])
    for result in results:
        array = _of_value(result, values)
        if array is not None and worst([array]) > given:
            kind = "NaN" if worst([array]) == 2 else "infinity"
            frame = call.frames[0] if call.frames else None
            index = np.argwhere(~np.isfinite(array))[0].tolist()
            fail(
                "R001", f"{call.op.name}: made {kind} from operands without", frame=frame, result=result.type, at=index
            )


def worst(arrays: Iterable[Array | complex | None]) -> int:
    """2 if an array holds NaN, 1 if it holds infinity, else 0."""
    rank = 0
    for array in arrays:
        if array is not None and not np.isfinite(array).all():
            rank = max(rank, 2 if np.isnan(array).any() else 1)
    return rank


def _of_operand(call: Call, values: Mapping[int, Value]) -> Array | complex | None:
    if call.op is NUMBER:
        value = call.attr("value")
        return value if isinstance(value, (float, complex)) and not _is_finite(value) else None
    return _of_value(call, values) if id(call) in values else None


def _is_finite(value: complex) -> bool:
    return math.isfinite(value.real) and math.isfinite(value.imag)


def _of_value(call: Call, values: Mapping[int, Value]) -> Array | None:
    if not (call.type.dtype.is_floating_point or call.type.dtype.is_complex):
        return None
    value = values[id(call)]
    array = elements(value.address, value.shape, value.strides, call.type.dtype)
    return array.astype(np.float64) if array.dtype.kind == "V" else array
