"""Custom functions inside `vmap`: the batch goes through their own rule, or through their methods place by place.

A function without a rule is a function of whole batches: its methods are given mapped tensors, and what autograd
records, saves and hands on are the tensors of all places, with the batch in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.eager.autograd.function import Function, FunctionNode
from rushlight.eager.batching.levels import Level, VmapInfo, in_front, level_of, mapped, repeated
from rushlight.eager.dispatch import STATE, Scope, call_user, tell_made
from rushlight.eager.handle import BATCHED, Handle
from rushlight.eager.symbols import wrap_size
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail


class MappedCall:
    """A call of a custom function at one level: which arguments are mapped, and the function's own `ctx`."""

    def __init__(self, function: type[Function], level: Level, args: Sequence[object]) -> None:
        self.function = function
        self.level = level
        self.args = args
        self.are_mapped = [level_of(arg) == level for arg in args]
        self.maps = STATE.maps
        self.node = FunctionNode(function)
        tell_made(self.node)
        self.outputs: list[bool] = []  # which outputs are mapped, and which saved tensors
        self.saved: list[bool] = []
        self.is_tuple = False

    def whole(self, value: object) -> Any:
        """The tensor of all places, for one that is mapped here."""
        return value.node.value if isinstance(value, Handle) and level_of(value) == self.level else value

    def parts(self, values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
        """What stands for one place of each value that is of all places."""
        pairs = zip(values, flags, strict=True)
        return [mapped(value, self.level) if flag and value is not None else value for value, flag in pairs]

    def scope(self) -> Scope:
        """What the methods run in: the levels of the call, wherever its backward pass is run from."""
        return Scope(maps=self.maps, included=STATE.included | BATCHED, excluded=STATE.excluded & ~BATCHED)

    def summed(self, gradient: Any, is_mapped: bool) -> Any:
        """A gradient of all places together: a sum for an argument that all places share."""
        if not isinstance(gradient, Handle):
            return gradient
        found = level_of(gradient) == self.level
        whole = self.whole(gradient) if found else repeated(gradient, self.level)
        return whole if is_mapped else OPERATORS["sum"](whole, (0,))


class OverBatch(Function):
    """A call at one level, as a function of whole batches."""

    @staticmethod
    def forward(ctx: Any, call: MappedCall, *values: object) -> object:
        """The function's outputs on mapped tensors, as whole batches."""
        node, function = call.node, call.function
        node.needs_input_grad = ctx.needs_input_grad[1:]
        args = call.parts(values, call.are_mapped)
        with call.scope():
            if function.setup_context is Function.setup_context:
                result = call_user(function.forward, node, *args)
            else:
                result = call_user(function.forward, *args)
                call_user(function.setup_context, node, tuple(args), result)
        call.is_tuple = isinstance(result, tuple)
        outputs = result if isinstance(result, tuple) else (result,)
        marks = node.take_marks()
        call.outputs = [level_of(output) == call.level for output in outputs]
        call.saved = [level_of(one) == call.level for one in marks.saved]
        ctx.save_for_backward(*map(call.whole, marks.saved))
        ctx.mark_dirty(*map(call.whole, marks.dirty))
        ctx.mark_non_differentiable(*map(call.whole, marks.nondifferentiable))
        ctx.set_materialize_grads(marks.materializes)
        ctx.call, call.args = call, ()
        return tuple([call.whole(output) for output in outputs])

    @staticmethod
    def backward(ctx: Any, *gradients: object) -> object:
        """The gradients of whole batches, by the function's backward on mapped tensors."""
        call: MappedCall = ctx.call
        call.node.give_saved(call.parts(ctx.saved_tensors, call.saved))
        with call.scope():
            found = call_user(call.function.backward, call.node, *call.parts(gradients, call.outputs))
            found = found if isinstance(found, tuple) else (found,)
            flags = [*call.are_mapped, *[False] * (len(found) - len(call.are_mapped))]
            return (None, *[call.summed(one, flag) for one, flag in zip(found, flags, strict=False)])


def apply_at_levels(function: type[Function], args: Sequence[object]) -> Any:
    """A call of a custom function with mapped tensors: the innermost level by its rule, or by its methods."""
    level = max([level for arg in args if (level := level_of(arg)) is not None], key=lambda level: level.depth)
    call = MappedCall(function, level, args)
    whole = [call.whole(arg) for arg in args]
    if function.vmap is not Function.vmap:
        return _by_rule(call, whole)
    outputs = OverBatch.apply(call, *whole)
    given = {id(value): arg for value, arg in zip(whole, args, strict=True) if isinstance(arg, Handle)}
    found = [given.get(id(one), one) for one in outputs]  # a tensor that was written to and returned is itself
    results = [
        mapped(one, level) if flag and level_of(one) != level else one
        for one, flag in zip(found, call.outputs, strict=True)
    ]
    return tuple(results) if call.is_tuple else results[0]


def _by_rule(call: MappedCall, whole: Sequence[object]) -> Any:
    """What the function's own rule for batches gives."""
    level, name = call.level, call.function.__name__
    dims = tuple([0 if flag else None for flag in call.are_mapped])
    info = VmapInfo(wrap_size(level.size), level.randomness)
    outer = tuple([one for one in STATE.maps if one != level])
    with Scope(maps=outer, included=STATE.included if outer else STATE.included & ~BATCHED):
        answer = call_user(call.function.vmap, info, dims, *whole)
        if not isinstance(answer, tuple) or len(answer) != 2:
            fail("A012", f"{name}: the rule for batches gives results and their dims", given=type(answer).__name__)
        results, out = answer
        several = isinstance(results, tuple)
        listed = results if several else (results,)
        places = out if isinstance(out, (tuple, list)) else (out,) * len(listed)
        pairs = zip(listed, places, strict=True)
        moved = [one if dim is None or not isinstance(one, Handle) else in_front(one, dim) for one, dim in pairs]
    wrapped = [
        one if dim is None or not isinstance(one, Handle) else mapped(one, level)
        for one, dim in zip(moved, places, strict=True)
    ]
    return tuple(wrapped) if several else wrapped[0]
