"""The matrix's questions about gradients."""

import dataclasses
from typing import Any

import numpy as np

from matrix_calls import (
    built,
    call,
    compiled_fused_call,
    fused_call,
    key_of,
    kind_of,
    ones_for,
    outputs_of,
    same_tensors,
    structure_of,
)
from matrix_cases import Case, direction_in, map_arrays, materialise
from rushlight.autograd import grad
from rushlight.eager.creation import from_numpy
from rushlight.eager.memory import array_of
from rushlight.ir.dtype import Kind, float32, float64

STEP = 1e-5  # of central differences in float64


@dataclasses.dataclass
class Differentiable:
    """A call as a function of its floating-point tensors, with the weights of its results."""

    op: Any
    arguments: Any
    leaves: list
    weights: list = dataclasses.field(default_factory=list)

    def results(self):
        remaining = iter(self.leaves)
        operands = built(self.arguments.operands, lambda leaf: next(remaining))
        found = outputs_of(call(self.op, operands, self.arguments.attrs))
        return with_gradients(found)

    def gradients(self, results, create_graph=False):
        """By every operand that may have one; None where no result depends on it."""
        wanted = [leaf for leaf in self.leaves if leaf.requires_grad]
        pairs = [pair for pair in zip(results, self.weights, strict=True) if pair[0].requires_grad]
        if not pairs:
            return [None] * len(wanted)
        outs, weights = zip(*pairs, strict=True)
        return grad(outs, wanted, weights, create_graph=create_graph, allow_unused=True)


def with_gradients(results):
    """The floating results; beside some with gradients, others are constants, such as statistics."""
    found = [out for out in results if out.is_floating_point()]
    return [out for out in found if out.requires_grad] or found


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
    count = len(variables) - len(others)
    rng = np.random.default_rng(17)
    for at, (variable, gradient) in enumerate(zip(variables, found, strict=True)):
        array = array_of(variable.detach())
        if array.size == 0:
            continue
        if gradient is not None and tuple(gradient.shape) != array.shape:
            return f"gradient {at} has the shape {tuple(gradient.shape)}, its operand {array.shape}"
        origin = array.copy()
        direction = rng.standard_normal(array.shape)
        direction = direction_in(function.arguments.domain, direction) if at < count else direction
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
    structure = structure_of(built(function.arguments.operands, lambda leaf: next(remaining)))
    call_parts = (function.op, structure, key_of(function.arguments.attrs))
    ones = ones_for([*function.leaves, *function.weights])
    results, wanted = _with_gradients(function, fused_call(*call_parts), ones)
    found, gradients = _with_gradients(function, compiled_fused_call(*call_parts, kind_of(case)), ones)
    text = same_tensors(found, results)
    if text is not None:
        return f"forward: {text}"
    text = same_tensors(gradients, wanted)
    return None if text is None else f"gradients: {text}"


def _with_gradients(function, run, ones):
    results = with_gradients(run(ones, *function.leaves))
    return [out.detach() for out in results], function.gradients(results)


def ask_no_gradient(case: Case) -> str | None:
    """Results of an operator without gradients do not require them."""
    required = any(out.requires_grad for out in differentiable(case).results())
    return "a result requires gradients" if required else None
