"""The question of mixed layouts: operands of pointwise operators that lie each otherwise in memory.

Operands are permuted, broadcast along other dims, expanded, or overlap. Results have the bits that dense operands give,
and the strides that `meta` says; all combinations compiled as one function have eager's bits and strides.
"""

import dataclasses
import itertools

import numpy as np

from matrix_agreement import same_bits
from matrix_calls import call, filled, flat_tensors, other_strides, outputs_of, same_tensors, structure_of, tensors_of
from matrix_cases import (
    Arguments,
    Case,
    Leaf,
    base_dtype,
    map_leaves,
    richest_of,
    sample_arguments,
    types_of,
    typing_attrs,
)
from rushlight.capture import compile as compile_function
from rushlight.ops.record import Fact
from rushlight.support import settings

SHAPE = (3, 2, 4)


def _swapped(values):
    return np.resize(values, (3, 4, 2)).transpose(0, 2, 1)


def _turned(values):
    return np.resize(values, (2, 4, 3)).transpose(2, 0, 1)


def _rows(values):
    """A transposed matrix with a new dim in its middle."""
    return np.resize(values, (4, 3)).T[:, None]


def _columns(values):
    """A transposed matrix with a new dim at the end."""
    return np.resize(values, (2, 3)).T[:, :, None]


def _expanded(values):
    kept = np.resize(values, 2)
    return np.lib.stride_tricks.as_strided(kept, SHAPE, (0, kept.itemsize, 0))


def _overlapping(values):
    buffer = np.resize(values, 16)
    step = buffer.itemsize
    return np.lib.stride_tricks.as_strided(buffer, SHAPE, (step, 2 * step, step))


COMBINATIONS = (
    (_rows, _swapped, _overlapping),
    (_turned, _columns, _rows),
    (_overlapping, _expanded, _swapped),
)


def is_mixed(case: Case) -> bool:
    """One case for each pointwise operator of several tensors: its richest sample, if its operands are all alike."""
    plain = (case.layout, case.size, case.values) == ("contiguous", "given", "given")
    own = case.sample == richest_of(case.op) and Fact.RANDOM not in case.operator.facts
    arguments = sample_arguments(case.op)[case.sample]
    several = len(arguments.leaves()) > 1 and case.dtype == base_dtype(arguments)
    return plain and own and several and Fact.POINTWISE in case.operator.facts


def mixed_arguments(case: Case, combination) -> Arguments:
    """The case's operands with the layouts of a combination in turns."""
    arguments = sample_arguments(case.op)[case.sample]
    layouts = itertools.cycle(combination)
    operands = map_leaves(arguments.operands, lambda leaf: Leaf(next(layouts)(leaf.array.reshape(-1)), leaf.role))
    return dataclasses.replace(arguments, operands=operands)


def ask_mixed(case: Case) -> str | None:
    """Eager's bits against those of dense operands, its strides against `meta`'s; then compiled against eager."""
    with settings.override(optimise=0):  # each kernel runs once
        return _asked(case)


def _asked(case):
    op = case.operator
    everything, wanted = [], []
    for combination in COMBINATIONS:
        arguments = mixed_arguments(case, combination)
        operands = tensors_of(arguments)
        results = outputs_of(call(op, operands, arguments.attrs))
        types = outputs_of(op.infer(types_of(arguments), typing_attrs(op, arguments)))
        dense = map_leaves(arguments.operands, _made_dense)
        plain = outputs_of(call(op, tensors_of(Arguments(dense, arguments.attrs)), arguments.attrs))
        text = same_tensors(results, plain, same_bits) or other_strides(results, types)
        if text is not None:
            return f"{' '.join([layout.__name__[1:] for layout in combination])}: {text}"
        everything.append(operands)
        wanted += results
    found = _compiled(op, arguments.attrs, everything)
    text = same_tensors(found, tuple(wanted), same_bits) or other_strides(found, tuple(wanted))
    return None if text is None else f"compiled: {text}"


def _made_dense(leaf):
    return Leaf(np.ascontiguousarray(np.broadcast_to(leaf.array, SHAPE)), leaf.role)


def _compiled(op, attrs, everything):
    structures = [structure_of(operands) for operands in everything]

    def run(*tensors):
        parts, found = iter(tensors), []
        for structure in structures:
            found += outputs_of(call(op, filled(structure, parts), dict(attrs)))
        return tuple(found)

    return compile_function(run)(*[tensor for operands in everything for tensor in flat_tensors(operands)])
