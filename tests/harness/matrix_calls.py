"""Calls of operators on a case's operands: in eager, compiled, and compiled between multiplications by ones."""

import functools

import numpy as np

from matrix_agreement import same_bits
from matrix_cases import Leaf
from rushlight.capture import compile as compile_function
from rushlight.eager import Tensor
from rushlight.eager.creation import from_numpy
from rushlight.eager.memory import array_of
from rushlight.ir.dtype import Kind


def outputs_of(result):
    """One result or several, as a tuple; a number that was one of the graph's is a tensor."""
    found = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    return tuple(from_numpy(np.asarray(item)) if type(item) in (int, float) else item for item in found)


def tensors_of(arguments):
    """Operands with a tensor on the memory of each array."""
    return built(arguments.operands, lambda leaf: from_numpy(leaf.array))


def built(items, make):
    return tuple(
        built(item, make) if isinstance(item, tuple) else make(item) if isinstance(item, Leaf) else item
        for item in items
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
        return call(op, filled(structure, iter(tensors)), dict(attrs))

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


def times_ones(op, structure, attrs, tensors):
    """A function of ones alone: the results of the call on these tensors, times ones."""
    plain = call_without(op, structure, attrs)
    return lambda ones: tuple(_times_one(result, ones) for result in outputs_of(plain(*tensors)))


def frozen_call(function):
    """The compiled form of a function whose tensors are frozen."""
    return compile_function(function, freeze=True)


def _times_one(tensor, ones):
    one = ones.get(tensor.dtype.name)
    return tensor if one is None else tensor * one


def ones_for(tensors):
    """A one of every floating, signed and complex dtype among tensors; others are left as they are."""
    names = {tensor.dtype.name: tensor.dtype for tensor in tensors}
    return {name: from_numpy(np.ones((), dtype.numpy)) for name, dtype in names.items() if dtype.kind >= Kind.FLOAT}


@functools.cache
def compiled_fused_call(op, structure, attrs, kind):
    """The compiled form of `fused_call`, one for each kind of case."""
    return compile_function(fused_call(op, structure, attrs))


def kind_of(case):
    """Cases of one sample and dtype meet the same compiled function, in all their sizes and layouts."""
    return case.sample, case.dtype


@functools.cache
def compiled_call(op, structure, attrs, kind):
    """The compiled form of `call_without`, one for each kind of case."""
    return compile_function(call_without(op, structure, attrs))


class Hole:
    """Stands for a tensor in a structure of operands."""


def structure_of(operands):
    return tuple(
        structure_of(item) if isinstance(item, tuple) else Hole if isinstance(item, Tensor) else (type(item), item)
        for item in operands
    )


def filled(structure, tensors):
    found = []
    for item in structure:
        if item is Hole:
            found.append(next(tensors))
        elif len(item) == 2 and isinstance(item[0], type) and item[0] is not Hole:
            found.append(item[1])
        else:
            found.append(filled(item, tensors))
    return tuple(found)


def key_of(attrs):
    return tuple(attrs.items())


def steps_of(shape, strides):
    """The strides that matter."""
    return None if 0 in shape else tuple(step for size, step in zip(shape, strides, strict=True) if size > 1)


def memory_of(arguments):
    """All bytes that the operands' arrays lie in, guards included."""
    found = []
    for leaf in arguments.leaves():
        owner = leaf.array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        found.append(owner.tobytes())
    return found


def same_types(one, other):
    """How two arrays differ in shape or dtype; None if they do not."""
    same = one.shape == other.shape and one.dtype == other.dtype
    return None if same else f"{one.dtype}{one.shape} instead of {other.dtype}{other.shape}"


def other_strides(found, wanted):
    """How strides differ, of types or tensors; None if they do not. Shapes are equal."""
    for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
        strides = [item.stride() if isinstance(item, Tensor) else item.strides for item in (one, other)]
        if steps_of(one.shape, strides[0]) != steps_of(other.shape, strides[1]):
            return f"result {at}: strides {strides[0]} instead of {strides[1]}"
    return None


def same_tensors(found, wanted, compare=same_bits):
    """How lists of tensors, or Nones, differ by `compare`; None if they do not."""
    found, wanted = outputs_of(found), outputs_of(wanted)
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if (one is None) != (other is None):
            return f"result {at}: {one} instead of {other}"
        if one is None:
            continue
        text = compare(array_of(one), array_of(other))
        if text is not None:
            return f"result {at}: {text}"
    return None
