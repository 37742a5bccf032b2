"""The questions of the generated matrix. Each takes a case and answers None, or a text that says what is wrong.

meta         types of results are those of `ref`; dtypes outside the family are refused
symbolic     types on symbolic sizes, at these sizes, are the concrete types
eager        results are those of `ref`; operands are left alone; views share storage
layout       eager's strides are those that `meta` says
mixed        operands of pointwise operators that lie each otherwise in memory: eager and compiled, values and strides
zeros        zeros have the signs that `ref` gives them, where it computes in the same dtype
compiled     `rl.compile` of the call gives eager's bits
fused        so does that of the call between multiplications by ones that only run time knows to be ones
frozen       so does that of the call on frozen operands, before such multiplications
vjp          gradients are those of finite differences, in float64
vjp_twice    and gradients of gradients
vjp_compiled forward and backward of that compiled give eager's bits
variants     in-place and out= forms, and in-place compiled, give the functional form's bits
"""

import functools

import numpy as np

from matrix_agreement import Expected, disagreement, expected_results, same_bits, wrong_zeros
from matrix_calls import (
    call,
    compiled_call,
    compiled_fused_call,
    flat_tensors,
    frozen_call,
    fused_call,
    key_of,
    kind_of,
    memory_of,
    ones_for,
    other_strides,
    outputs_of,
    same_tensors,
    same_types,
    steps_of,
    structure_of,
    tensors_of,
    times_ones,
)
from matrix_cases import (
    ASKED,
    VARIED,
    Case,
    base_dtype,
    cases,
    converted,
    materialise,
    reference,
    refusal,
    refused_dtypes,
    richest_of,
    sample_arguments,
    types_of,
    typing_attrs,
)
from matrix_gradients import ask_no_gradient, ask_vjp, ask_vjp_compiled, ask_vjp_twice
from matrix_mixed import ask_mixed, is_mixed
from matrix_variants import ask_variants
from rushlight.eager.memory import array_of
from rushlight.ops.record import Fact
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope, evaluate


def ask_meta(case: Case) -> str | None:
    """Types of results against `ref`'s arrays."""
    op, arguments = case.operator, materialise(case)
    inferred = outputs_of(op.infer(types_of(arguments), typing_attrs(op, arguments)))
    found = reference(op, arguments)
    if len(inferred) != len(found):
        return f"{len(inferred)} results, ref has {len(found)}"
    for at, (type_, array) in enumerate(zip(inferred, found, strict=True)):
        if tuple(type_.shape) != array.shape or type_.dtype.numpy != array.dtype:
            return f"result {at}: {type_}, ref has {array.dtype}{list(array.shape)}"
    return None


def ask_refusal(case: Case) -> str | None:
    """A dtype that the operator does not have: D001 or D006, from typing and from eager."""
    op = case.operator
    arguments = _in_dtype(case)
    error = refusal(arguments, op)
    if error is None or error.code not in ("D001", "D006"):
        return f"typing answers {'a type' if error is None else error.code}, not D001 or D006"
    try:
        call(op, tensors_of(arguments), arguments.attrs)
    except RushlightError as found:
        return None if found.code in ("D001", "D006") else f"eager raises {found.code}, not D001 or D006"
    return "eager gives a result"


def _in_dtype(case):
    return converted(
        sample_arguments(case.op)[case.sample], next(d for d in refused_dtypes(case.op) if d.name == case.dtype)
    )


def ask_symbolic(case: Case) -> str | None:
    """Types on symbols for every size above 1."""
    op, arguments = case.operator, materialise(case)
    concrete = outputs_of(op.infer(types_of(arguments), typing_attrs(op, arguments)))
    scope, values = Scope(), {}
    types = _symbolic(types_of(arguments), scope, values)
    inferred = outputs_of(op.infer(types, typing_attrs(op, arguments)))
    if len(inferred) != len(concrete):
        return f"{len(inferred)} results instead of {len(concrete)}"
    for at, (type_, wanted) in enumerate(zip(inferred, concrete, strict=True)):
        shape = tuple(evaluate(scope.resolve(size), values) for size in type_.shape)
        if shape != tuple(wanted.shape) or type_.dtype is not wanted.dtype:
            return f"result {at}: {type_} is {shape}, concretely {wanted}"
        strides = tuple(evaluate(scope.resolve(size), values) for size in type_.strides)
        if steps_of(shape, strides) != steps_of(wanted.shape, wanted.strides):
            return f"result {at}: strides {type_.strides} are {strides}, concretely {wanted.strides}"
    return None


def _symbolic(types, scope, values):
    found = []
    for type_ in types:
        if isinstance(type_, tuple):
            found.append(_symbolic(type_, scope, values))
        elif type_ is None or type_.weak:
            found.append(type_)
        else:
            shape = []
            for size in type_.shape:
                if size > 1:
                    symbol = scope.symbol(hint=size, lower=0)
                    values[symbol] = size
                    size = symbol
                shape.append(size)
            found.append(type(type_)(tuple(shape), type_.dtype))
    return tuple(found)


def ask_eager(case: Case) -> str | None:
    """Results, layouts and side effects of eager."""
    op, arguments = case.operator, materialise(case)
    types = outputs_of(op.infer(types_of(arguments), typing_attrs(op, arguments)))
    expected = expected_results(op, arguments, types)
    before = memory_of(arguments)
    operands = tensors_of(arguments)
    results = outputs_of(call(op, operands, arguments.attrs))
    if memory_of(arguments) != before:
        return "an operand was written to"
    if len(results) != len(expected):
        return f"{len(results)} results instead of {len(expected)}"
    for at, (result, wanted, type_) in enumerate(zip(results, expected, types, strict=True)):
        if result.dtype is not type_.dtype:
            return f"result {at}: {result.dtype}, meta says {type_}"
        if Fact.VIEW in op.facts and result.numel() and not np.shares_memory(array_of(result), array_of(operands[0])):
            return f"result {at} does not share its operand's storage"
        found = None if _undefined(op) else disagreement(array_of(result), wanted, type_.dtype)
        if found is not None:
            return f"result {at}: {found}"
    return other_strides(results, types)


def ask_zeros(case: Case) -> str | None:
    """Signs of zeros at the edges of arithmetic."""
    op, arguments = case.operator, materialise(case)
    plain = reference(op, arguments)
    for at, (result, wanted) in enumerate(zip(outputs_of(call(op, tensors_of(arguments), arguments.attrs)), plain)):
        if wanted.dtype.kind == "f":
            found = wrong_zeros(array_of(result), Expected(wanted, None))
            if found is not None:
                return f"result {at}: {found}"
    return None


def ask_compiled(case: Case) -> str | None:
    """Bits and strides of the compiled call against eager's, and side effects."""
    op, arguments = case.operator, materialise(case)
    before = memory_of(arguments)
    operands = tensors_of(arguments)
    wanted = outputs_of(call(op, operands, arguments.attrs))
    compiled = compiled_call(op, structure_of(operands), key_of(arguments.attrs), kind_of(case))
    found = outputs_of(compiled(*flat_tensors(operands)))
    if memory_of(arguments) != before:
        return "an operand was written to"
    return same_tensors(found, wanted, same_types if _undefined(op) else same_bits) or other_strides(found, wanted)


def ask_fused(case: Case) -> str | None:
    """Bits of the compiled call between multiplications against eager's."""
    op, arguments = case.operator, materialise(case)
    operands = tensors_of(arguments)
    tensors, structure, attrs = flat_tensors(operands), structure_of(operands), key_of(arguments.attrs)
    results = outputs_of(call(op, operands, arguments.attrs))
    ones = ones_for([*tensors, *results])
    wanted = fused_call(op, structure, attrs)(ones, *tensors)
    found = compiled_fused_call(op, structure, attrs, kind_of(case))(ones, *tensors)
    return same_tensors(found, wanted, same_types if _undefined(op) else same_bits)


def ask_frozen(case: Case) -> str | None:
    """Bits of the call on frozen operands, times ones, against eager's."""
    op, arguments = case.operator, materialise(case)
    operands = tensors_of(arguments)
    tensors, structure, attrs = flat_tensors(operands), structure_of(operands), key_of(arguments.attrs)
    ones = ones_for(outputs_of(call(op, operands, arguments.attrs)))
    function = times_ones(op, structure, attrs, tensors)
    wanted, found = function(ones), frozen_call(function)(ones)
    return same_tensors(found, wanted, same_types if _undefined(op) else same_bits)


def _undefined(op):
    return op.name in ("empty", "empty_like")


def _no_cases(case):
    return False


def _plain(case):
    return case.size == "given" and case.values == "given"


def smooth(case: Case) -> bool:
    """Whether finite differences in float64 say something: the sample's own values, floating, in few layouts."""
    return (
        _plain(case)
        and case.dtype == base_of(case)
        and case.layout in ("contiguous", "transposed")
        and _has_floats(case)
    )


def base_of(case):
    """The dtype of the case's sample."""
    return base_dtype(sample_arguments(case.op)[case.sample])


def _has_floats(case):
    return any(leaf.array.dtype.kind == "f" for leaf in sample_arguments(case.op)[case.sample].leaves("data"))


def has_gradient(case: Case) -> bool:
    """Whether the operator has a gradient by any operand of the case; of pointwise ones a few samples are asked."""
    several = case.sample < 3 or case.sample == richest_of(case.op) or Fact.POINTWISE not in case.operator.facts
    return smooth(case) and several and Fact.NONDIFFERENTIABLE not in case.operator.facts


def _leads(case):
    """Whether it is one of the operator's two samples that stand for all where each costs several compilations."""
    return case.sample in (0, richest_of(case.op))


def _has_variants(case):
    found = case.operator.variants & {"inplace", "out"}
    varied = Fact.RANDOM in case.operator.facts or case.values != "given" or case.size != "given"
    return bool(found) and not varied and case.layout in ("contiguous", "transposed")


def _has_zeros(case):
    return case.values == "special" and case.dtype in ("float32", "float64") and Fact.POINTWISE in case.operator.facts


def _compilable(case):
    """The base dtype, and those that are computed in ways of their own."""
    return case.dtype in (base_of(case), "int8", *VARIED)


def _fusable(case):
    """The base dtype in all sizes and two layouts, and the dtypes that are computed in ways of their own."""
    if case.dtype == base_of(case):
        several = _leads(case) or Fact.POINTWISE not in case.operator.facts
        return several and case.layout in ("contiguous", "transposed")
    return case.dtype in ("bfloat16", "complex64") and case.values == "given"


def _freezable(case):
    """The operator's own values in two layouts, where it does not draw new ones at each call."""
    own = _plain(case) and case.dtype == base_of(case) and case.layout in ("contiguous", "transposed")
    return own and _leads(case) and Fact.RANDOM not in case.operator.facts


QUESTIONS = {
    "meta": (ask_meta, lambda case: True),
    "symbolic": (
        ask_symbolic,
        lambda case: case.values == "given" and case.dtype == base_of(case) and case.layout == "contiguous",
    ),
    "eager": (ask_eager, lambda case: True),
    "mixed": (ask_mixed, is_mixed),
    "zeros": (ask_zeros, _has_zeros),
    "compiled": (ask_compiled, _compilable),
    "fused": (ask_fused, _fusable),
    "frozen": (ask_frozen, _freezable),
    "vjp": (ask_vjp, has_gradient),
    "vjp_twice": (ask_vjp_twice, lambda case: has_gradient(case) and _leads(case)),
    "vjp_compiled": (ask_vjp_compiled, lambda case: has_gradient(case) and _leads(case)),
    "no_gradient": (ask_no_gradient, lambda case: smooth(case) and Fact.NONDIFFERENTIABLE in case.operator.facts),
    "variants": (ask_variants, _has_variants),
    "refusal": (ask_refusal, _no_cases),
}


@functools.cache
def cells(op: str, question: str) -> tuple[Case, ...]:
    """The cases that a question is put to."""
    if question == "refusal":
        position = next((at for at, item in enumerate(sample_arguments(op)) if item.leaves("data")), None)
        return tuple(Case(op, position, dtype.name) for dtype in refused_dtypes(op))
    _, applies = QUESTIONS[question]
    return tuple(case for case in cases(op) if applies(case))


def all_cells():
    """Every cell: (operator, question, case)."""
    return [(op, question, case) for op in ASKED for question in QUESTIONS for case in cells(op, question)]
