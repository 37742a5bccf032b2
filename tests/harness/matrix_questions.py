"""The questions of the generated matrix. Each takes a case and answers None, or a text that says what is wrong.

    meta         types of results are those of `ref`; dtypes outside the family are refused
    symbolic     types on symbolic sizes, at these sizes, are the concrete types
    eager        results are those of `ref`; operands are left alone; views share storage
    layout       eager's strides are those that `meta` says
    zeros        zeros have the signs that `ref` gives them, where it computes in the same dtype
    compiled     `rl.compile` of the call gives eager's bits and layout
    fused        so does that of the call between multiplications by ones that only run time knows to be ones
    vjp          gradients are those of finite differences, in float64
    vjp_twice    and gradients of gradients
    vjp_compiled forward and backward of that compiled give eager's bits
    variants     in-place and out= forms, and in-place compiled, give the functional form's bits
"""

import dataclasses
import functools
from typing import Any

import numpy as np

from matrix_agreement import Expected, disagreement, expected_results, same_bits, wrong_zeros
from matrix_cases import (
    VARIED,
    Case,
    Leaf,
    base_dtype,
    cases,
    converted,
    map_arrays,
    materialise,
    reference,
    refusal,
    refused_dtypes,
    sample_arguments,
    types_of,
)
from rushlight.autograd import grad
from rushlight.capture import compile as compile_function
from rushlight.eager import Tensor, functions
from rushlight.eager.creation import from_numpy
from rushlight.eager.memory import array_of
from rushlight.eager.mutation import can_cast
from rushlight.ir.dtype import Kind, float32, float64
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope, evaluate

STEP = 1e-5


def outputs_of(result):
    """One result or several, as a tuple."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def tensors_of(arguments):
    """Operands with a tensor on the memory of each array."""
    return _built(arguments.operands, lambda leaf: from_numpy(leaf.array))


def _built(items, make):
    return tuple(
        _built(item, make) if isinstance(item, tuple) else make(item) if isinstance(item, Leaf) else item for item in items
    )


def flat_tensors(operands):
    """The tensors among operands, in order."""
    found = []
    for item in operands:
        if isinstance(item, tuple):
            found += flat_tensors(item)
        elif isinstance(item, Tensor):
            found.append(item)
    return found


def call(op, operands, attrs):
    """The operator on tensors, by name."""
    return op(**op.named(operands, attrs))


@functools.cache
def call_without(op, structure, attrs):
    """`call` as a function of the tensors alone; the same function for the same numbers and attributes."""

    def run(*tensors):
        return call(op, _filled(structure, iter(tensors)), dict(attrs))

    return run


@functools.cache
def fused_call(op, structure, attrs):
    """A function of the tensors and as many ones: the call of the tensors times ones, its results times ones.

    What is before and after the call gives the compiler something to fuse, and keeps the graph from being eager's own.
    """
    plain = call_without(op, structure, attrs)

    def run(ones, *tensors):
        given = [_times_one(tensor, ones) for tensor in tensors]
        return tuple(_times_one(result, ones) for result in outputs_of(plain(*given)))

    return run


def _times_one(tensor, ones):
    one = ones.get(tensor.dtype.name)
    return tensor if one is None else tensor * one


def ones_for(tensors):
    """A one of every floating, signed and complex dtype among tensors; others are left as they are."""
    names = {tensor.dtype.name: tensor.dtype for tensor in tensors}
    return {
        name: from_numpy(np.ones((), dtype.numpy)) for name, dtype in names.items() if dtype.kind >= Kind.FLOAT
    }


@functools.cache
def compiled_fused_call(op, structure, attrs):
    """The compiled form of `fused_call`."""
    return compile_function(fused_call(op, structure, attrs))


@functools.cache
def compiled_call(op, structure, attrs):
    """The compiled form of `call_without`: one, so that its traces meet many sizes and layouts."""
    return compile_function(call_without(op, structure, attrs))


class _Hole:
    """Stands for a tensor in a structure of operands."""


def structure_of(operands):
    return tuple(
        structure_of(item) if isinstance(item, tuple) else _Hole if isinstance(item, Tensor) else (type(item), item)
        for item in operands
    )


def _filled(structure, tensors):
    found = []
    for item in structure:
        if item is _Hole:
            found.append(next(tensors))
        elif len(item) == 2 and isinstance(item[0], type) and item[0] is not _Hole:
            found.append(item[1])
        else:
            found.append(_filled(item, tensors))
    return tuple(found)


def key_of(attrs):
    return tuple(attrs.items())


# Types.


def ask_meta(case: Case) -> str | None:
    """Types of results against `ref`'s arrays."""
    op, arguments = case.operator, materialise(case)
    inferred = outputs_of(op.infer(types_of(arguments), arguments.attrs))
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
    return converted(sample_arguments(case.op)[case.sample], next(d for d in refused_dtypes(case.op) if d.name == case.dtype))


def ask_symbolic(case: Case) -> str | None:
    """Types on symbols for every size above 1."""
    op, arguments = case.operator, materialise(case)
    concrete = outputs_of(op.infer(types_of(arguments), arguments.attrs))
    scope, values = Scope(), {}
    types = _symbolic(types_of(arguments), scope, values)
    inferred = outputs_of(op.infer(types, arguments.attrs))
    if len(inferred) != len(concrete):
        return f"{len(inferred)} results instead of {len(concrete)}"
    for at, (type_, wanted) in enumerate(zip(inferred, concrete, strict=True)):
        shape = tuple(evaluate(scope.resolve(size), values) for size in type_.shape)
        if shape != tuple(wanted.shape) or type_.dtype is not wanted.dtype:
            return f"result {at}: {type_} is {shape}, concretely {wanted}"
        strides = tuple(evaluate(scope.resolve(size), values) for size in type_.strides)
        if _steps(shape, strides) != _steps(wanted.shape, wanted.strides):
            return f"result {at}: strides {type_.strides} are {strides}, concretely {wanted.strides}"
    return None


def _steps(shape, strides):
    """The strides that matter."""
    return None if 0 in shape else tuple(step for size, step in zip(shape, strides, strict=True) if size > 1)


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


# Values.


def ask_eager(case: Case) -> str | None:
    """Results, layouts and side effects of eager."""
    op, arguments = case.operator, materialise(case)
    types = outputs_of(op.infer(types_of(arguments), arguments.attrs))
    expected = expected_results(op, arguments, types)
    before = _memory(arguments)
    operands = tensors_of(arguments)
    results = outputs_of(call(op, operands, arguments.attrs))
    if _memory(arguments) != before:
        return "an operand was written to"
    if len(results) != len(expected):
        return f"{len(results)} results instead of {len(expected)}"
    for at, (result, wanted, type_) in enumerate(zip(results, expected, types, strict=True)):
        if result.dtype is not type_.dtype:
            return f"result {at}: {result.dtype}, meta says {type_}"
        if Fact.VIEW in op.facts and result.numel() and not np.shares_memory(array_of(result), array_of(operands[0])):
            return f"result {at} does not share its operand's storage"
        found = disagreement(array_of(result), wanted, type_.dtype)
        if found is not None:
            return f"result {at}: {found}"
    return None


def ask_layout(case: Case) -> str | None:
    """Strides of eager's results."""
    op, arguments = case.operator, materialise(case)
    types = outputs_of(op.infer(types_of(arguments), arguments.attrs))
    for at, (result, type_) in enumerate(zip(outputs_of(call(op, tensors_of(arguments), arguments.attrs)), types)):
        if _steps(result.shape, result.stride()) != _steps(type_.shape, type_.strides):
            return f"result {at}: strides {result.stride()}, meta says {type_.strides}"
    return None


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


def _memory(arguments):
    """All bytes that the operands' arrays lie in, guards included."""
    found = []
    for leaf in arguments.leaves():
        owner = leaf.array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        found.append(owner.tobytes())
    return found


def ask_compiled(case: Case) -> str | None:
    """Bits and layouts of the compiled call against eager's."""
    op, arguments = case.operator, materialise(case)
    operands = tensors_of(arguments)
    wanted = outputs_of(call(op, operands, arguments.attrs))
    before = _memory(arguments)
    compiled = compiled_call(op, structure_of(operands), key_of(arguments.attrs))
    found = outputs_of(compiled(*flat_tensors(operands)))
    if _memory(arguments) != before:
        return "an operand was written to"
    return _same_tensors(found, wanted, same_types if _undefined(op) else same_bits)


def ask_fused(case: Case) -> str | None:
    """Bits of the compiled call between multiplications against eager's."""
    op, arguments = case.operator, materialise(case)
    operands = tensors_of(arguments)
    tensors, structure, attrs = flat_tensors(operands), structure_of(operands), key_of(arguments.attrs)
    results = outputs_of(call(op, operands, arguments.attrs))
    ones = ones_for([*tensors, *results])
    wanted = fused_call(op, structure, attrs)(ones, *tensors)
    found = compiled_fused_call(op, structure, attrs)(ones, *tensors)
    return _same_tensors(found, wanted, same_types if _undefined(op) else same_bits)


def _undefined(op):
    return op.name in ("empty", "empty_like")


def same_types(one, other):
    """How two arrays differ in shape or dtype; None if they do not."""
    same = one.shape == other.shape and one.dtype == other.dtype
    return None if same else f"{one.dtype}{one.shape} instead of {other.dtype}{other.shape}"


def _same_tensors(found, wanted, compare=same_bits, strided=True):
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if (one is None) != (other is None):
            return f"result {at}: {one} instead of {other}"
        if one is None:
            continue
        text = compare(array_of(one), array_of(other))
        if text is None and strided and _steps(one.shape, one.stride()) != _steps(other.shape, other.stride()):
            text = f"strides {one.stride()} instead of {other.stride()}"
        if text is not None:
            return f"result {at}: {text}"
    return None


# Gradients.


@dataclasses.dataclass
class Differentiable:
    """A call as a function of its floating-point tensors, with the weights of its results."""

    op: Any
    arguments: Any
    leaves: list
    weights: list = dataclasses.field(default_factory=list)

    def results(self):
        remaining = iter(self.leaves)
        operands = _built(self.arguments.operands, lambda leaf: next(remaining))
        found = outputs_of(call(self.op, operands, self.arguments.attrs))
        return [out for out in found if out.is_floating_point()]

    def gradients(self, results, create_graph=False):
        """By every operand that may have one; None where no result depends on it."""
        wanted = [leaf for leaf in self.leaves if leaf.requires_grad]
        pairs = [pair for pair in zip(results, self.weights, strict=True) if pair[0].requires_grad]
        if not pairs:
            return [None] * len(wanted)
        outs, weights = zip(*pairs, strict=True)
        return grad(outs, wanted, weights, create_graph=create_graph, allow_unused=True)


def differentiable(case, dtype=float64):
    """The case in a floating dtype, with gradients wanted of all floating operands."""
    op, arguments = case.operator, materialise(case)
    arguments = converted_floats(arguments, dtype)
    leaves = []
    for leaf in arguments.leaves():
        # A copy of the memory keeps its layout; steps below move its elements.
        tensor = from_numpy(_with_own_memory(leaf.array))
        if leaf.array.dtype.kind == "f":
            tensor.requires_grad = True
        leaves.append(tensor)
    found = Differentiable(op, arguments, leaves)
    rng = np.random.default_rng(11)
    for out in found.results():
        found.weights.append(from_numpy(rng.standard_normal(tuple(out.shape)).astype(out.dtype.numpy)))
    return found


def converted_floats(arguments, dtype):
    """Floats in another dtype, wherever they are, dtypes among the attributes included."""

    def convert(leaf):
        wide = leaf.array.dtype.kind == "f" or leaf.array.dtype.name == "bfloat16"
        return leaf.array.astype(dtype.numpy, order="K") if wide else leaf.array

    attrs = {
        name: dtype if getattr(value, "kind", None) is Kind.FLOAT else value for name, value in arguments.attrs.items()
    }
    return dataclasses.replace(map_arrays(arguments, convert), attrs=attrs)


def _with_own_memory(array):
    found = np.empty_like(array, order="K")
    found[...] = array
    return found


def ask_vjp(case: Case) -> str | None:
    """The directional derivative against a central difference."""
    return _check_directions(differentiable(case), _value_of_results, _gradients)


def ask_vjp_twice(case: Case) -> str | None:
    """The directional derivative of a weighted sum of the gradients."""
    function = differentiable(case)
    for weight in function.weights:
        weight.requires_grad = True
    rng = np.random.default_rng(13)
    wanted = [leaf for leaf in function.leaves if leaf.requires_grad]
    seeds = [from_numpy(rng.standard_normal(tuple(leaf.shape))) for leaf in wanted]

    def first():
        found = function.gradients(function.results(), create_graph=True)
        return [(item, seed) for item, seed in zip(found, seeds, strict=True) if item is not None]

    def value():
        return sum(float(np.sum(array_of(item.detach()) * array_of(seed))) for item, seed in first())

    def second(variables):
        pairs = [(item, seed) for item, seed in first() if item.requires_grad]
        if not pairs:
            return [None] * len(variables)
        return grad([item for item, _ in pairs], variables, [seed for _, seed in pairs], allow_unused=True)

    return _check_directions(function, lambda _: value(), lambda _, variables: second(variables), function.weights)


def _value_of_results(function):
    return sum(
        float(np.sum(array_of(out.detach()) * array_of(weight)))
        for out, weight in zip(function.results(), function.weights, strict=True)
    )


def _gradients(function, variables):
    return function.gradients(function.results())


def _check_directions(function, value, gradients, others=()):
    variables = [leaf for leaf in function.leaves if leaf.requires_grad] + list(others)
    found = gradients(function, variables)
    rng = np.random.default_rng(17)
    for at, (variable, gradient) in enumerate(zip(variables, found, strict=True)):
        array = array_of(variable.detach())
        if array.size == 0:
            continue
        if gradient is not None and tuple(gradient.shape) != array.shape:
            return f"gradient {at} has the shape {tuple(gradient.shape)}, its operand {array.shape}"
        origin = array.copy()
        direction = rng.standard_normal(array.shape)
        array[...] = origin + STEP * direction
        above = value(function)
        array[...] = origin - STEP * direction
        below = value(function)
        array[...] = origin
        expected = (above - below) / (2 * STEP)
        actual = 0.0 if gradient is None else float(np.sum(array_of(gradient.detach()) * direction))
        scale = 1.0 if gradient is None else 1.0 + float(np.sum(np.abs(array_of(gradient.detach()) * direction)))
        if not abs(actual - expected) <= 1e-6 * scale + 1e-9 * abs(above):
            return f"operand {at}: {actual} along a direction, by differences {expected}"
    return None


def ask_vjp_compiled(case: Case) -> str | None:
    """Results and gradients of the compiled forward and backward, between multiplications, against eager's."""
    function = differentiable(case, float32)
    remaining = iter(function.leaves)
    structure = structure_of(_built(function.arguments.operands, lambda leaf: next(remaining)))
    call_parts = (function.op, structure, key_of(function.arguments.attrs))
    ones = ones_for([*function.leaves, *function.weights])
    results, wanted = _with_gradients(function, fused_call(*call_parts), ones)
    found, gradients = _with_gradients(function, compiled_fused_call(*call_parts), ones)
    text = _same_tensors(found, results)
    if text is not None:
        return f"forward: {text}"
    # Layouts of gradients are free: eager may give an expanded view where compiled code writes one out.
    text = _same_tensors(gradients, wanted, strided=False)
    return None if text is None else f"gradients: {text}"


def _with_gradients(function, run, ones):
    results = [out for out in run(ones, *function.leaves) if out.is_floating_point()]
    return [out.detach() for out in results], function.gradients(results)


def ask_no_gradient(case: Case) -> str | None:
    """Results of an operator without gradients do not require them."""
    required = any(out.requires_grad for out in differentiable(case).results())
    return "a result requires gradients" if required else None


# Variants.


def ask_variants(case: Case) -> str | None:
    """In-place and out= forms against the functional one."""
    op, arguments = case.operator, materialise(case)
    (wanted,) = outputs_of(call(op, tensors_of(arguments), arguments.attrs))
    answers = []
    if "inplace" in op.variants:
        answers += [ask_in_place(op, arguments, wanted, _call_in_place), _compiled_in_place(op, arguments, wanted)]
    if "out" in op.variants:
        answers += [ask_out(op, arguments, wanted, transposed) for transposed in (False, True)]
    return next((answer for answer in answers if answer is not None), None)


def _call_in_place(op, target, operands, attrs):
    named = op.named((target, *operands[1:]), attrs)
    named.pop(op.schema.operands[0].name)
    return getattr(target, op.name + "_")(**named)


def ask_in_place(op, arguments, wanted, run):
    """Bits of the target afterwards, or the registered error where the result does not fit it."""
    own = map_arrays(arguments, lambda leaf: leaf.array.copy())
    operands = tensors_of(own)
    target = operands[0]
    if not isinstance(target, Tensor):
        return None
    fits = tuple(wanted.shape) == tuple(target.shape) and can_cast(wanted.dtype, target.dtype)
    try:
        result = run(op, target, operands, own.attrs)
    except RushlightError as error:
        return f"in place: {error.code} {error}" if fits or error.code not in ("S009", "D003") else None
    if not fits:
        return "in place: a result that does not fit was stored"
    if result is not target:
        return "in place: the target is not what is returned"
    found = same_bits(array_of(target), array_of(wanted).astype(target.dtype.numpy))
    return None if found is None else f"in place: {found}"


def _compiled_in_place(op, arguments, wanted):
    operands = tensors_of(arguments)
    target = operands[0]
    if not isinstance(target, Tensor) or target.dtype is not wanted.dtype or tuple(target.shape) != tuple(wanted.shape):
        return None
    compiled = _compiled_mutation(op, structure_of(operands), key_of(arguments.attrs))

    def run(op, target, operands, attrs):
        compiled(*flat_tensors(operands))
        return target

    found = ask_in_place(op, arguments, wanted, run)
    return None if found is None else f"compiled {found}"


@functools.cache
def _compiled_mutation(op, structure, attrs):
    def run(*tensors):
        operands = _filled(structure, iter(tensors))
        _call_in_place(op, operands[0], operands, dict(attrs))

    return compile_function(run)


def ask_out(op, arguments, wanted, transposed):
    """Bits of `out` afterwards, for a dense and a transposed one."""
    shape = tuple(wanted.shape)
    buffer = np.zeros(shape[::-1] if transposed else shape, wanted.dtype.numpy)
    out = from_numpy(buffer.T if transposed else buffer)
    named = op.named(tensors_of(arguments), arguments.attrs)
    result = getattr(functions, op.name)(**named, out=out)
    if result is not out:
        return "out=: another tensor is returned"
    found = same_bits(array_of(out), array_of(wanted))
    return None if found is None else f"out={'transposed' if transposed else ''}: {found}"


# Which cases each question is put to.


def _no_cases(case):
    return False


def _plain(case):
    return case.size == "given" and case.values == "given"


def smooth(case: Case) -> bool:
    """Whether finite differences in float64 say something: the sample's own values, floating, in few layouts."""
    return _plain(case) and case.dtype == base_of(case) and case.layout in ("contiguous", "transposed") and _has_floats(case)


def base_of(case):
    """The dtype of the case's sample."""
    return base_dtype(sample_arguments(case.op)[case.sample])


def _has_floats(case):
    return any(leaf.array.dtype.kind == "f" for leaf in sample_arguments(case.op)[case.sample].leaves("data"))


def has_gradient(case: Case) -> bool:
    """Whether the operator has a gradient by any operand of the case."""
    return smooth(case) and Fact.NONDIFFERENTIABLE not in case.operator.facts


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
        return case.layout in ("contiguous", "transposed")
    return case.dtype in ("bfloat16", "float64", "complex64") and case.values == "given"


QUESTIONS = {
    "meta": (ask_meta, lambda case: True),
    "symbolic": (ask_symbolic, lambda case: case.values == "given" and case.dtype == base_of(case) and case.layout == "contiguous"),
    "eager": (ask_eager, lambda case: not _undefined(case.operator)),
    "layout": (ask_layout, lambda case: case.values == "given" and case.dtype == base_of(case)),
    "zeros": (ask_zeros, _has_zeros),
    "compiled": (ask_compiled, _compilable),
    "fused": (ask_fused, _fusable),
    "vjp": (ask_vjp, has_gradient),
    "vjp_twice": (ask_vjp_twice, has_gradient),
    "vjp_compiled": (ask_vjp_compiled, lambda case: has_gradient(case) and case.layout == "contiguous"),
    "no_gradient": (ask_no_gradient, lambda case: smooth(case) and not has_gradient(case)),
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
    return [(op, question, case) for op in OPERATORS for question in QUESTIONS for case in cells(op, question)]
