"""The matrix's question about in-place and out= forms."""

import functools

import numpy as np

from matrix_agreement import same_bits
from matrix_calls import call, filled, flat_tensors, key_of, kind_of, outputs_of, structure_of, tensors_of
from matrix_cases import Case, map_arrays, materialise
from rushlight.capture import compile as compile_function
from rushlight.eager import Tensor, functions
from rushlight.eager.creation import from_numpy
from rushlight.eager.memory import array_of
from rushlight.eager.mutation import can_cast
from rushlight.support.errors import RushlightError


def ask_variants(case: Case) -> str | None:
    """In-place and out= forms against the functional one."""
    op, arguments = case.operator, materialise(case)
    (wanted,) = outputs_of(call(op, tensors_of(arguments), arguments.attrs))
    answers = []
    if "inplace" in op.variants:
        answers += [
            ask_in_place(op, arguments, wanted, _call_in_place),
            _compiled_in_place(op, arguments, wanted, kind_of(case)),
        ]
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


def _compiled_in_place(op, arguments, wanted, kind):
    operands = tensors_of(arguments)
    target = operands[0]
    if not isinstance(target, Tensor) or target.dtype is not wanted.dtype or tuple(target.shape) != tuple(wanted.shape):
        return None
    compiled = _compiled_mutation(op, structure_of(operands), key_of(arguments.attrs), kind)

    def run(op, target, operands, attrs):
        compiled(*flat_tensors(operands))
        return target

    found = ask_in_place(op, arguments, wanted, run)
    return None if found is None else f"compiled {found}"


@functools.cache
def _compiled_mutation(op, structure, attrs, kind):
    def run(*tensors):
        operands = filled(structure, iter(tensors))
        _call_in_place(op, operands[0], operands, dict(attrs))

    return compile_function(run)


def ask_out(op, arguments, wanted, transposed):
    """Bits of `out` afterwards, for a dense and a transposed one."""
    if not isinstance(tensors_of(arguments)[0], Tensor):
        return None
    shape = tuple(wanted.shape)
    buffer = np.zeros(shape[::-1] if transposed else shape, wanted.dtype.numpy)
    out = from_numpy(buffer.T if transposed else buffer)
    named = op.named(tensors_of(arguments), arguments.attrs)
    result = getattr(functions, op.name)(**named, out=out)
    if result is not out:
        return "out=: another tensor is returned"
    found = same_bits(array_of(out), array_of(wanted))
    return None if found is None else f"out={'transposed' if transposed else ''}: {found}"
