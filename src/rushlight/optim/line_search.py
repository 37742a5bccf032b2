"""A line search for the strong Wolfe conditions (Nocedal and Wright 2006, section 3.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from rushlight.eager.tensor import Tensor

DECREASE = 1e-4  # the loss must fall by this part of what its slope promises
CURVATURE = 0.9  # and the slope to this part of what it was


class Point(NamedTuple):
    """A place on the line: step, loss, gradient, and slope along the line."""

    step: float
    loss: float
    grad: Tensor
    slope: float


Evaluate = Callable[[float], Point]


def minimum_of_cubic(one: Point, other: Point, bounds: tuple[float, float] | None = None) -> float:
    """Return where the cubic through two points is lowest, within bounds (the points by default)."""
    low, high = bounds or (min(one.step, other.step), max(one.step, other.step))
    across = one.slope + other.slope - 3 * _ratio(one.loss - other.loss, one.step - other.step)
    squared = across * across - one.slope * other.slope
    if not squared >= 0:
        return (low + high) / 2.0
    root = math.sqrt(squared)
    near, far = (one, other) if one.step <= other.step else (other, one)
    part = _ratio(far.slope + root - across, far.slope - near.slope + 2 * root)
    return min(max(far.step - (far.step - near.step) * part, low), high)


def _ratio(a: float, b: float) -> float:
    """Return a / b with the limits of floating point in the place of Python's error."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def strong_wolfe(
    evaluate: Evaluate, start: Point, step: float, length: float, tolerance: float, most: int
) -> tuple[Point, int]:
    """Return a point that meets the conditions, or the best found, and the number of evaluations.

    `start` is the point of step 0, `step` the first one to try, `length` the greatest element of the direction. The
    search ends where the bracket, so measured, is shorter than `tolerance`, and after `most` rounds.
    """
    before, current = start, evaluate(step)
    rounds, bracket, met = 0, None, False
    while rounds < most:
        if _too_high(current, start) or (rounds > 1 and current.loss >= before.loss):
            bracket = [before, current]
        elif _flat(current, start):
            bracket, met = [current], True
        elif current.slope >= 0:
            bracket = [before, current]
        if bracket is not None:
            break
        bounds = (current.step + 0.01 * (current.step - before.step), current.step * 10)
        before, current = current, evaluate(minimum_of_cubic(before, current, bounds))
        rounds += 1
    if bracket is None:
        bracket = [start, current]
    if met:
        return bracket[0], rounds + 1
    return _narrowed(evaluate, start, bracket, length, tolerance, most, rounds)


def _too_high(point: Point, start: Point) -> bool:
    return point.loss > start.loss + DECREASE * point.step * start.slope


def _flat(point: Point, start: Point) -> bool:
    return abs(point.slope) <= -CURVATURE * start.slope


def _narrowed(
    evaluate: Evaluate, start: Point, bracket: list[Point], length: float, tolerance: float, most: int, rounds: int
) -> tuple[Point, int]:
    """Narrow a bracket around a point that meets the conditions."""
    low, stuck = _lower(bracket), False
    while rounds < most and not abs(bracket[1].step - bracket[0].step) * length < tolerance:
        step, stuck = _inside(minimum_of_cubic(bracket[0], bracket[1]), bracket, stuck)
        point = evaluate(step)
        rounds += 1
        if _too_high(point, start) or point.loss >= bracket[low].loss:
            bracket[1 - low] = point
            low = _lower(bracket)
            continue
        rises = point.slope * (bracket[1 - low].step - bracket[low].step) >= 0
        if rises and not _flat(point, start):
            bracket[1 - low] = bracket[low]
        bracket[low] = point
        if _flat(point, start):
            break
    return bracket[low], rounds + 1


def _lower(bracket: list[Point]) -> int:
    return 0 if bracket[0].loss <= bracket[1].loss else 1


def _inside(step: float, bracket: list[Point], stuck: bool) -> tuple[float, bool]:
    """Return the step, moved off the bracket's ends if the search is stuck, and whether it may be."""
    first, last = min(point.step for point in bracket), max(point.step for point in bracket)
    margin = 0.1 * (last - first)
    if not min(last - step, step - first) < margin:
        return step, False
    if stuck or step >= last or step <= first:
        return (last - margin if abs(step - last) < abs(step - first) else first + margin), False
    return step, True
