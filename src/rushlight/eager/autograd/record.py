"""The AUTOGRAD key: runs the operator below, and writes down how to differentiate it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.eager.asserting import refused
from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.derive import rule_of
from rushlight.eager.autograd.history import attach, differentiable, requires
from rushlight.eager.autograd.node import Node
from rushlight.eager.autograd.operation import OperatorNode, Recipe, needed_of, recipe_for, title
from rushlight.eager.autograd.write import check_write, record_write, write_decomposed
from rushlight.eager.dispatch import BACKENDS, STATE, Key, bit, call_below, register_fallback
from rushlight.eager.execution.copying import TO_DEVICE
from rushlight.eager.execution.decompose import run_decomposition
from rushlight.eager.execution.operands import flatten
from rushlight.eager.handle import AUTOGRAD, Handle, is_wrapper
from rushlight.eager.mutation import Mutation
from rushlight.ir.type import CPU
from rushlight.ir.value import map_operands
from rushlight.ops.record import Fact, Operator
from rushlight.support.errors import fail
from rushlight.term import Op

_ELSEWHERE = (BACKENDS & ~(bit(Key.CPU) | bit(Key.META))) | bit(Key.TRACING)  # a trace's tensors have its key alone


def below_autograd(active: int, op: Op, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """What the keys below autograd answer."""
    return call_below(Key.AUTOGRAD, op, active, operands, attrs)


BELOW: list[Callable[[int, Op, tuple[object, ...], Mapping[str, object]], Any]] = [below_autograd]
"""`below_autograd`, or native code that does the same."""


def record(op: Any, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """The boxed kernel that answers every operator at the AUTOGRAD key."""
    if not STATE.grad:
        if STATE.forward is not None and STATE.silenced:
            _require_no_tangent(op, operands)
        return call_below(Key.AUTOGRAD, op, active, operands, attrs)
    if op.__class__ is Mutation:
        return _record_mutation(op, active, operands, attrs)
    if _has_no_derivative(op):
        return call_below(Key.AUTOGRAD, op, active, operands, attrs)
    flat = flatten(operands)
    needed = needed_of(flat)
    if True not in needed:
        return call_below(Key.AUTOGRAD, op, active, operands, attrs)
    rule = rule_of(op)
    if rule is None and op.decompose_rule is not None:
        return run_decomposition(op, Key.AUTOGRAD, operands, attrs)
    if active & _ELSEWHERE:
        operands = _together(operands)
        flat = flatten(operands)
    result = BELOW[0](active, op, operands, attrs)
    results = result if isinstance(result, tuple) else (result,)
    outputs: list[int] = []
    for output, tensor in enumerate(results):
        if differentiable(tensor):
            outputs.append(output)
    if not outputs:
        return result
    node: Node
    if rule is None:
        node = MissingRule(op, [edge for edge in _edges(operands, needed) if edge is not None])
    else:
        node = OperatorNode(recipe_for(op, rule, operands, attrs, needed, results), operands, results, flat)
    for output in outputs:
        attach(results[output], node, output)
    return result


def _together(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands with those of the CPU's without dims moved to where the others are: their gradients are moved back."""
    tensors = [operand for operand in flatten(operands) if isinstance(operand, Handle)]
    device = next((tensor.form.device for tensor in tensors if tensor.form.device is not CPU), CPU)

    def moved(operand: Any) -> Any:
        stays = not isinstance(operand, Handle) or operand.form.device is not CPU or operand.form.shape
        return operand if stays else TO_DEVICE(operand, device=device)

    return operands if device is CPU else map_operands(operands, moved)


class Recorded(NamedTuple):
    """What a call writes on the tape: what it saves, and the numbers of the results that get a history.

    Without a recipe nothing is written.
    """

    recipe: Recipe | None
    outputs: tuple[int, ...]


def recorded(
    op: Any,
    operands: tuple[object, ...],
    attrs: Mapping[str, object],
    needed: tuple[bool, ...],
    results: Sequence[Any],
) -> Recorded | None:
    """What `record` writes for a call of one kernel, or for a view; None if it does more."""
    if _has_no_derivative(op):
        return Recorded(None, ())
    rule = rule_of(op)
    if rule is None:
        return None
    outputs = tuple([output for output, tensor in enumerate(results) if differentiable(tensor)])
    return Recorded(recipe_for(op, rule, operands, attrs, needed, results) if outputs else None, outputs)


def _require_no_tangent(op: Any, operands: tuple[object, ...]) -> None:
    """A006 for what is computed from duals under no_grad: it has a tangent, which only what is recorded has here."""
    derived = op.__class__ is Mutation or not _has_no_derivative(op)
    if derived and any(needed_of(flatten(operands))):
        hint = "compute it outside of no_grad, or from x.detach(), which is a constant"
        fail("A006", f"{STATE.forward}: what is computed under no_grad has no tangent", op=op.name, hint=hint)


@functools.cache
def _has_no_derivative(op: Operator) -> bool:
    return Fact.NONDIFFERENTIABLE in op.facts


def _edges(operands: tuple[object, ...], needed: Sequence[bool]) -> list[Any]:
    return [operand for operand, wanted in zip(flatten(operands), needed, strict=True) if wanted]


class MissingRule(Node):
    """The node of an operator without derivative: backward through it is error G008."""

    __slots__ = ("_op", "_types")

    def __init__(self, op: Op, operands: Sequence[Any]) -> None:
        super().__init__([edge_of(operand) for operand in operands])  # it is on the way to what they are computed from
        self._op = op
        self._types = [operand.form.type for operand in operands]

    def name(self) -> str:
        """A name that says what is missing."""
        return title(self._op.name) + "WithoutDerivative"

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """Fails; in a pass that nobody may ask for its gradients do, once they are."""
        message = f"{self._op.name}: there is no derivative rule"
        if STATE.tracer is None or not STATE.tracer.derives:
            fail("G008", message, frame=self.frame)
        given = next(gradient for gradient in gradients if gradient is not None)
        return [refused(given, type_, "G008", message) for type_ in self._types]


def _record_mutation(op: Mutation, active: int, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    target = op.target_of(operands)
    if STATE.tracer is not None and not is_wrapper(target):
        STATE.tracer.resolve_alias(target)
    base = op.base_operands(operands)
    needed = needed_of(flatten(base))
    wanted = requires(target) if not op.out else False
    recorded = differentiable(target) or op.out  # what integers hold has no gradient
    if not recorded or (True not in needed and not wanted):
        if target.keys & AUTOGRAD and op.out and requires(target):
            fail("A004", f"{op.name}: out= cannot be a tensor that requires gradients", out=target)
        return call_below(Key.AUTOGRAD, op, active, operands, attrs)
    if op.out:
        fail("A004", f"{op.name}: with out= nothing is recorded, but an operand requires gradients", hint="drop out=")
    check_write(op.name, target)
    rule = rule_of(op)
    if rule is None:
        return write_decomposed(op, operands, attrs)
    return record_write(op, rule, operands, attrs, lambda: call_below(Key.AUTOGRAD, op, active, operands, attrs))


register_fallback(Key.AUTOGRAD, record, leaf=True)
