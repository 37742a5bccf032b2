"""Broken rules that the matrix has to notice: `python -m matrix_mutants` breaks each in a child and prints JSON.

Each child asks the cells of one operator and question as they are, breaks a rule, and asks again. The parent has run
nothing, so a child's kernels are its own; nothing is kept on disk.
"""

import ctypes
import dataclasses
import json
import math
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import matrix_calls
from matrix import answer
from matrix_cases import sample_arguments
from matrix_questions import cells
from matrix_tiers import is_plain
from rushlight.build import native
from rushlight.capture.backward import CompiledBackward
from rushlight.capture.entry.constant_cache import ConstantCache
from rushlight.eager import Tensor
from rushlight.eager.execution import kernels
from rushlight.ir.dtype import float64
from rushlight.ir.type import Layout, TensorType, contiguous_strides, dense_order
from rushlight.ir.value import Value
from rushlight.ops import OPERATORS, promote
from rushlight.ops.pointwise import definition
from rushlight.ops.record import Fact
from rushlight.support import settings


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A way to break something, and the operator and question that notice.

    With `late` the cells are asked before the breaking and not only after: what they left in memory stays as it was.
    """

    name: str
    op: str
    question: str
    damage: Callable[[Any], None]
    late: bool = False

    def __str__(self) -> str:
        return f"{self.op}-{self.question}-{self.name}"


def changed_rule(kind: str, change: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    """Damage that replaces an operator's rule by one whose result went through `change(result, arguments)`."""

    def damage(op):
        rule = getattr(op, f"{kind}_rule")

        def broken(*args, **kwargs):
            return change(rule(*args, **kwargs), kwargs or args)

        setattr(op, f"{kind}_rule", broken)

    return damage


def _first(change):
    """Applies a change to the first of several results."""
    return lambda result, given: (
        (change(result[0], given), *result[1:]) if isinstance(result, tuple) else change(result, given)
    )


def _longer(type_, given):
    return TensorType((*type_.shape, 1), type_.dtype)


def _wider(type_, given):
    return TensorType(type_.shape, float64)


def _reversed_symbols(type_, given):
    symbolic = any(not isinstance(size, int) for size in type_.shape)
    return TensorType(tuple(reversed(type_.shape)), type_.dtype) if symbolic else type_


def _column_major(type_, given):
    strides = tuple(reversed(contiguous_strides(type_.shape[::-1])))
    return TensorType(type_.shape, type_.dtype, type_.device, strides)


def _unmoved(layout, given):
    base = next(iter(given.values()))
    return Layout(layout.shape, base.strides[: len(layout.shape)], layout.offset)


def _off(value, given):
    return value * 1.00002


def _far_off(value, given):
    return value * 1.01


def _plus_one(value, given):
    return value + 1


def _plus_zero(value, given):
    return value + 0.0


def _detached(gradient, given):
    return OPERATORS["detach"](gradient) if isinstance(gradient, Value) else gradient


def _all_detached(result, given):
    return tuple(_detached(item, given) for item in result) if isinstance(result, tuple) else _detached(result, given)


def _no_second(result, given):
    return (result[0], None, *result[2:])


def _accept_all_dtypes(op):
    op.dtypes = "all"


def _scale_incoming_gradients(op):
    plain = CompiledBackward.run

    def scaled(self, gradients, *rest):
        return plain(self, [None if item is None else item * 1.00002 for item in gradients], *rest)

    CompiledBackward.run = scaled


def _subtract_in_place(op):
    Tensor.add_ = Tensor.sub_


def _differentiate(op):
    op.facts &= ~Fact.NONDIFFERENTIABLE


def _compile_negated(op):
    plain = matrix_calls.call_without

    def negated(*parts):
        run = plain(*parts)
        return lambda *tensors: -run(*tensors)

    matrix_calls.call_without = negated


def _decide_strides_twice(op):
    """Executables decide the strides of results anew, on symbols, by the first dense operand of the full shape."""
    decided = definition.pointwise_strides

    def by_first_dense(types, shape):
        symbolic = any(not isinstance(size, int) for type_ in types for size in (*type_.shape, *type_.strides))
        orders = [dense_order(type_.shape, type_.strides) for type_ in types if promote._has_shape(type_, shape)]
        order = next((order for order in orders if order is not None), None)
        return tuple(dense_strides(shape, order)) if symbolic and order is not None else decided(types, shape)

    definition.pointwise_strides = by_first_dense
    kernels.results_in = lambda builder, results, layouts: builder.graph(list(results))


def dense_strides(shape, order):
    """Strides of a dense tensor whose dims lie in this order, outermost first."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step = step * shape[dim]
    return strides


def _spoil_what_is_kept(op):
    made = ConstantCache.refresh

    def refresh(kept):
        made(kept)
        for tensor in kept.results:
            ctypes.memset(tensor.address(), 0x55, math.prod(tensor.shape) * tensor.dtype.itemsize)

    ConstantCache.refresh = refresh


META, REF, LOWER, DECOMPOSE, VIEW, VJP = (
    lambda change, kind=kind: changed_rule(kind, _first(change))
    for kind in ("meta", "ref", "lower", "decompose", "view", "vjp")
)

MUTANTS = (
    *(Mutant("longer", op, "meta", META(_longer)) for op in ("add", "sum", "matmul", "gather", "convolution")),
    *(Mutant("wider", op, "meta", META(_wider)) for op in ("mul", "amax", "cat")),
    *(
        Mutant("ref-plus-one-dim", op, "meta", REF(lambda array, _: array[None]))
        for op in ("sin", "softmax", "embedding")
    ),
    *(Mutant("reversed-symbols", op, "symbolic", META(_reversed_symbols)) for op in ("stack", "cumsum", "softmax")),
    # Eager takes its strides from `meta`; only a plan that was made before is at odds with it.
    *(Mutant("column-major", op, "eager", META(_column_major), True) for op in ("gather", "embedding")),
    *(Mutant("column-major", op, "compiled", META(_column_major), True) for op in ("gather", "embedding")),
    *(Mutant("decided-twice", op, "mixed", _decide_strides_twice) for op in ("mul", "addcmul", "where")),
    *(Mutant("ref-off", op, "eager", REF(_off)) for op in ("mul", "sum", "softmax", "layer_norm", "sin", "gather")),
    *(Mutant("ref-plus-one", op, "eager", REF(_plus_one)) for op in ("bitwise_xor", "argmax", "count_nonzero")),
    *(Mutant("lower-off", op, "eager", LOWER(_off)) for op in ("mul", "sum", "exp", "gather", "matmul", "convolution")),
    *(Mutant("lower-plus-one", op, "eager", LOWER(_plus_one)) for op in ("bitwise_xor", "argmax")),
    *(
        Mutant("decompose-off", op, "eager", DECOMPOSE(_off))
        for op in ("softmax", "layer_norm", "cross_entropy", "var")
    ),
    *(Mutant("unmoved", op, "eager", VIEW(_unmoved)) for op in ("transpose", "permute")),
    *(Mutant("lower-off", op, "fused", LOWER(_off), True) for op in ("mul", "sum", "exp", "matmul")),
    *(Mutant("decompose-off", op, "fused", DECOMPOSE(_off), True) for op in ("softmax", "layer_norm")),
    *(Mutant("lower-off", op, "frozen", LOWER(_off), True) for op in ("mul", "sum", "matmul")),
    *(Mutant("spoilt", op, "frozen", _spoil_what_is_kept) for op in ("matmul", "layer_norm")),
    *(Mutant("compiles-another", op, "compiled", _compile_negated, True) for op in ("mul", "transpose")),
    *(
        Mutant("vjp-off", op, "vjp", VJP(_far_off))
        for op in ("mul", "sum", "matmul", "softmax", "gather", "layer_norm")
    ),
    *(Mutant("vjp-without-second", op, "vjp", changed_rule("vjp", _no_second)) for op in ("mul", "matmul")),
    *(Mutant("vjp-detached", op, "vjp_twice", changed_rule("vjp", _all_detached)) for op in ("mul", "sin", "matmul")),
    *(Mutant("gradients-off", op, "vjp_compiled", _scale_incoming_gradients, True) for op in ("mul", "sum", "softmax")),
    *(Mutant("zero-added", op, "zeros", LOWER(_plus_zero)) for op in ("neg", "floor")),
    Mutant("differentiable", "detach", "no_gradient", _differentiate),
    Mutant("subtracts", "add", "variants", _subtract_in_place),
    *(Mutant("accepts-all", op, "refusal", _accept_all_dtypes) for op in ("bitwise_and", "neg", "softmax")),
)


def count(mutant: Mutant) -> int:
    """How many of the mutant's cells have a wrong answer."""
    asked = cells(mutant.op, mutant.question)
    asked = [case for case in asked if is_plain(case)] or asked
    return sum(answer(mutant.question, case) is not None for case in asked)


def noticed(mutant: Mutant) -> tuple[int, int]:
    """Wrong answers before the breaking, and after."""
    op = OPERATORS[mutant.op]
    sample_arguments(mutant.op), cells(mutant.op, mutant.question)
    if mutant.late:
        before = count(mutant)
        mutant.damage(op)
        _forget_compiled()
        return before, count(mutant)
    # Not asked before in this process: kernels would be found again.
    mutant.damage(op)
    return 0, count(mutant)


def _forget_compiled():
    for function in (matrix_calls.compiled_call, matrix_calls.compiled_fused_call):
        function.cache_clear()
    # Eager keeps its plans; a graph that is compiled again must not find the code it had.
    key = native.graph_key
    native.graph_key = lambda *parts: "broken" + key(*parts)


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a fork of this process; None if the fork dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def main() -> None:
    """Prints, per mutant that is named, or of all, the wrong answers before the breaking and after."""
    found, named = {}, sys.argv[1:]
    with settings.override(cache=False):
        for mutant in [mutant for mutant in MUTANTS if not named or str(mutant) in named]:
            found[str(mutant)] = in_child(lambda mutant=mutant: noticed(mutant))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
