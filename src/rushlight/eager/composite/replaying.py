"""Running a graph call by call, eagerly or while another program is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rushlight.eager import control as flow
from rushlight.eager.dispatch import STATE, call_function, dispatch
from rushlight.eager.execution.operands import flatten
from rushlight.eager.handle import Handle
from rushlight.eager.memory import array_of
from rushlight.ir.graph import NUMBER, RELAYOUT, RESULT, Call, Graph, Inner
from rushlight.ir.type import TensorType
from rushlight.ir.value import map_operands, map_sizes
from rushlight.ops import control
from rushlight.support.errors import fail
from rushlight.support.provenance import replayed
from rushlight.sym import (
    Condition,
    RuntimeAssert,
    Size,
    SizeExpr,
    evaluate,
    free_symbols,
    is_symbol,
    scope_of,
    substitute,
)
from rushlight.sym.condition import normalized
from rushlight.term import Op


class Interpreter:
    """Runs graphs. `sizes` has the values of their symbols: integers, or sizes of the program that is being traced.

    Each of `checks` is asked as soon as its sizes are known: R002, with the line it was written in. `answers` gives
    the values of calls, by identity, that are not made by their operators.
    """

    def __init__(
        self,
        sizes: dict[SizeExpr, Size],
        checks: Sequence[RuntimeAssert],
        answers: Mapping[int, Callable[[tuple[Any, ...]], Any]] = MappingProxyType({}),
    ) -> None:
        self.sizes = sizes
        self._answers = answers
        self.checks = list(checks)
        self._check()

    def run(self, graph: Graph, inputs: Sequence[object]) -> dict[int, Any]:
        """The values of a graph's calls, by identity."""
        values: dict[int, Any] = {id(call): value for call, value in zip(graph.parameters, inputs, strict=True)}
        for call in graph.calls:
            with replayed(call.frames):
                values[id(call)] = self._call(call, values)
                if call.op.unbacked_outputs:
                    self._learn(call, values[id(call)])
                    self._check()
        return values

    def size(self, size: Size) -> Size:
        """A size of the graph as one of the run."""
        if isinstance(size, int):
            return size
        if STATE.tracer is None:
            return evaluate(size, self.sizes)  # pyright: ignore[reportArgumentType] - all are integers here
        return substitute(size, {symbol: self.sizes[symbol] for symbol in free_symbols(size)})

    def _call(self, call: Call, values: Mapping[int, Any]) -> Any:
        if call.op is NUMBER:
            return call.attr("value")
        operands = map_operands(call.operands, lambda operand: values[id(operand)])
        answer = self._answers.get(id(call))
        if answer is not None:
            return answer(operands)
        if call.op is RELAYOUT:
            return operands[0]
        if call.op is RESULT:
            return operands[0][call.attr("index")]
        driver = _DRIVERS.get(call.op)
        if driver is not None:
            return driver(self, call, operands)
        unbacked_outputs = call.op.unbacked_outputs
        attrs = {name: None if name in unbacked_outputs else map_sizes(value, self.size) for name, value in call.attrs}
        placed = any(isinstance(operand, Handle) for operand in flatten(operands))  # else its device is an attribute
        return dispatch(call.op, operands, attrs) if placed else call_function(call.op, operands, attrs)

    def body(self, inner: Inner, operands: Sequence[Handle]) -> list[Handle]:
        """What a graph that a call holds makes of operands. They are all inputs of it, read or not."""
        if STATE.tracer is not None:
            for operand in operands:
                STATE.tracer.binding(operand)
        sizes = dict(self.sizes)
        for call, operand in zip(inner.graph.parameters, operands, strict=True):
            bind(call.type, operand, sizes)
        values = Interpreter(sizes, inner.branch.asserts).run(inner.graph, operands)
        return [values[id(call)] for call in inner.graph.outputs]

    def _learn(self, call: Call, result: Any) -> None:
        """The sizes that a call has made known: its results show them, or its value is one."""
        types, results = (call.type, result) if isinstance(call.type, tuple) else ((call.type,), (result,))
        for type_, value in zip(types, results, strict=True):
            bind(type_, value, self.sizes)
        for symbol in call.unbacked_symbols():
            if symbol not in self.sizes:
                traced = STATE.tracer is not None
                self.sizes[symbol] = (
                    results[0].node.node.call.unbacked_symbols()[0] if traced else int(array_of(results[0]))
                )

    def _check(self) -> None:
        later: list[RuntimeAssert] = []
        for check in self.checks:
            if all(symbol in self.sizes for symbol in free_symbols(check.condition.expr)):
                self._ask(check)
            else:
                later.append(check)
        self.checks = later

    def _ask(self, check: RuntimeAssert) -> None:
        expr = check.condition.expr
        condition = normalized(check.condition.relation, self.size(expr))
        if isinstance(condition, Condition):
            scope = scope_of(condition.expr)
            assert scope is not None
            with replayed(() if check.frame is None else (check.frame,)):
                scope.check(condition, check.message)
        elif not condition:
            values: dict[str, Any] = {name.facts.name: self.sizes[name] for name in free_symbols(expr)}
            fail("R002", str(check), frame=check.frame, **values)


def bind(type_: TensorType, value: Handle, sizes: dict[SizeExpr, Size]) -> None:
    """Learns the symbols that a type shows from the tensor that has it."""
    for size, actual in zip(type_.shape, value.form.type.shape, strict=True):
        if isinstance(size, SizeExpr) and is_symbol(size):
            sizes.setdefault(size, actual)
    for stride, actual in zip(type_.strides, value.form.type.strides, strict=True):
        if isinstance(stride, SizeExpr) and is_symbol(stride):
            sizes.setdefault(stride, actual)


def _cond(run: Interpreter, call: Call, operands: tuple[Any, ...]) -> object:
    predicate, given = operands
    one, other = call.attr("branches")
    return flow.cond(predicate, lambda: run.body(one, given), lambda: run.body(other, given))


def _while(run: Interpreter, call: Call, operands: tuple[Any, ...]) -> object:
    carries, others = operands
    question, step = call.attr("bodies")

    def goes_on(*carried: Handle) -> object:
        return run.body(question, [*carried, *others])[0]

    return flow.while_loop(goes_on, lambda *carried: tuple(run.body(step, [*carried, *others])), tuple(carries))


def _scan(run: Interpreter, call: Call, operands: tuple[Any, ...]) -> object:
    carries, xs, others = operands

    def step(carried: list[Handle], slices: list[Handle]) -> tuple[list[Handle], list[Handle]]:
        outcome = run.body(call.attr("body"), [*carried, *slices, *others])
        return outcome[: len(carries)], outcome[len(carries) :]

    last, stacked = flow.scan(step, list(carries), list(xs), reverse=call.attr("reverse"))
    return [*last, *stacked]


_DRIVERS: Mapping[Op, Callable[[Interpreter, Call, tuple[Any, ...]], object]] = MappingProxyType(
    {control.cond: _cond, control.while_loop: _while, control.scan: _scan}
)
