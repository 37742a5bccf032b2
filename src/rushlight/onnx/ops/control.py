"""Branches and loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.program import Subgraph
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Numbers, Value, to_tensor


def _tensors(values: Sequence[Value]) -> list[Value]:
    return [to_tensor(value) for value in values]


@operator("If")
def branch(condition: Value, *, then_branch: Subgraph, else_branch: Subgraph) -> tuple[Value, ...]:
    """One of two graphs."""
    chosen = condition.reshape(())
    if not rl.compiler.is_compiling():
        return tuple((then_branch if bool(chosen) else else_branch)())
    return tuple(rl.cond(chosen, lambda: tuple(_tensors(then_branch())), lambda: tuple(_tensors(else_branch()))))


@operator("Loop", host=(0,))
def loop(limit: Numbers | None, condition: Tensor | None = None, *carried: Value, body: Subgraph) -> tuple[Value, ...]:
    """A graph that runs again and again, up to a number of times and while its first result is true."""
    count = len(carried)
    scanned = len(body.program.outputs) - 1 - count
    if rl.compiler.is_compiling() and scanned == 0:
        return _loop_of_values(limit, condition, carried, body)
    values: Sequence[Value] = carried
    rows: list[list[Value]] = [[] for _ in range(scanned)]
    most = None if limit is None else int(limit.reshape(-1)[0])
    step, going = 0, condition is None or bool(condition.reshape(()))
    known = condition is None or not rl.compiler.is_compiling()
    while going and (most is None or step < most):
        results = body(to_tensor(np.asarray(step)), to_tensor(np.asarray(True)), *values)
        values = _tensors(results[1 : 1 + count])
        for row, value in zip(rows, results[1 + count :], strict=True):
            row.append(to_tensor(value))
        step += 1
        going = True if known and condition is None else bool(np.asarray(_truth(results[0])))
    return (*values, *[_stacked(row) for row in rows])


def _truth(value: Value) -> bool:
    return bool(value.reshape(())) if isinstance(value, Tensor) else bool(np.asarray(value).reshape(())[()])


def _stacked(rows: Sequence[Tensor]) -> Tensor:
    return rl.stack(list(rows)) if rows else rl.zeros(0)


def _loop_of_values(
    limit: Value, condition: Tensor | None, carried: Sequence[Value], body: Subgraph
) -> tuple[Value, ...]:
    most = None if limit is None else limit.reshape(-1)[0]
    start = to_tensor(np.asarray(True)) if condition is None else condition.reshape(())

    def going(step: Tensor, again: Tensor, *values: Tensor) -> Tensor:
        return again if most is None else again & (step < most)

    def once(step: Tensor, again: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        results = _tensors(body(step, again, *values))
        following = rl.ones((), dtype=rl.bool) if condition is None else results[0].reshape(())
        return (step + 1, following, *results[1:])

    operands = (to_tensor(np.asarray(0)), start, *_tensors(carried))
    return tuple(rl.while_loop(going, once, operands)[2:])


@operator("Scan", 9)
def scan(
    *operands: Tensor,
    body: Subgraph,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
) -> tuple[Value, ...]:
    """A graph that runs once for each place along a dim of its inputs, with values carried on."""
    count = len(operands) - num_scan_inputs
    states, inputs = list(operands[:count]), list(operands[count:])
    axes = scan_input_axes or (0,) * len(inputs)
    turns = scan_input_directions or (0,) * len(inputs)
    rows = [
        x.movedim(axis, 0).flip(0) if turn else x.movedim(axis, 0)
        for x, axis, turn in zip(inputs, axes, turns, strict=True)
    ]
    outputs = _scanned(body, states, rows, count)
    results: list[Value] = list(outputs[count:])
    axes = scan_output_axes or (0,) * len(results)
    turns = scan_output_directions or (0,) * len(results)
    moved = [(x.flip(0) if turn else x).movedim(0, axis) for x, axis, turn in zip(results, axes, turns, strict=True)]
    return (*outputs[:count], *moved)


def _scanned(body: Subgraph, states: Sequence[Tensor], rows: Sequence[Tensor], count: int) -> list[Value]:
    if rl.compiler.is_compiling():

        def once(carry: Value, row: Value) -> Value:
            results = _tensors(body(*carry, *row))
            return tuple(results[:count]), tuple(results[count:])

        carry, results = rl.scan(once, tuple(states), tuple(rows))
        return [*carry, *results]
    collected: list[list[Tensor]] = [[] for _ in range(len(body.program.outputs) - count)]
    for step in range(rows[0].shape[0]):
        results = _tensors(body(*states, *[row[step] for row in rows]))
        states = results[:count]
        for place, value in zip(collected, results[count:], strict=True):
            place.append(value)
    return [*states, *[_stacked(part) for part in collected]]


@operator("Scan", 8)
def scan_of_batches(
    lengths: Tensor | None, *operands: Tensor, body: Subgraph, num_scan_inputs: int, directions: tuple[int, ...] = ()
) -> tuple[Value, ...]:
    """Version 8, which scans each example of a batch for itself."""
    parts = [
        scan(
            *[x[row] for x in operands],
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions or None,
        )
        for row in range(operands[0].shape[0])
    ]
    return tuple([rl.stack(list(values)) for values in zip(*parts, strict=True)])
