"""Programs run call by call at given sizes, and what becomes of them: what traced ones are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.eager.autograd.driver import grad
from rushlight.eager.creation import empty, from_numpy
from rushlight.eager.handle import Handle
from rushlight.eager.memory import array_of
from rushlight.eager.mutation import in_place
from rushlight.eager.tensor import Tensor
from rushlight.runtime.generator import default_generator
from rushlight.support.errors import RushlightError
from rushlight.sym import Size
from rushlight.testing.close import unlike
from rushlight.testing.programs import (
    Array,
    Dim,
    Gradient,
    Input,
    Of,
    Own,
    Program,
    Step,
    product_of,
    replaced_refs,
    replaced_sizes,
)

SETS = ("sample", "zero", "one", "doubled", "mixed")
"""What the sizes are in a run: the samples', with one of them 0, with one of them 1, all doubled, any of a few."""
SEED = 11
_MIXED = (0, 1, 2, 3, 5, 8)


class Outcome(NamedTuple):
    """What becomes of a program at some sizes: its values in the end, or those before an error and its code.

    `given` has at the places of inputs what these were at first: the same tensors, where the program writes to none.
    """

    values: tuple[Any, ...]
    error: str | None
    given: tuple[object, ...]


def sizes_of(program: Program, name: str) -> list[int]:
    """The sizes of a set, by number; the same for programs whose samples have the same sizes."""
    samples = [own.sample for own in program.sizes]
    rng = np.random.default_rng([len(samples), *samples, SETS.index(name)])
    if name in ("zero", "one") and samples:
        samples[int(rng.integers(len(samples)))] = int(name == "one")
    elif name == "doubled":
        samples = [2 * sample for sample in samples]
    elif name == "mixed":
        samples = [int(rng.choice((*_MIXED, sample, 2 * sample))) for sample in samples]
    return samples


def run_eagerly(program: Program, name: str, data: bool = True) -> Outcome:
    """The program at a set of sizes, call by call. Without `data` its inputs are tensors of the meta device."""
    default_generator.manual_seed(SEED)
    sizes = sizes_of(program, name)
    values: list[Any] = []
    given: list[object] = []
    shapes: list[tuple[Size, ...]] = []

    def size(dim: Dim) -> int:
        if isinstance(dim, Own):
            return sizes[dim.number]
        return dim if isinstance(dim, int) else product_of(dim, shapes)

    def read(part: Input, seed: Sequence[int]) -> tuple[Tensor, ...]:
        tensor = from_numpy(_elements(part, size, seed))
        if not data:
            return (_without_data(tensor).requires_grad_(len(values) in program.leaves),)
        given.extend([None] * (len(values) - len(given)))
        given.append(from_numpy(_elements(part, size, seed)) if program.writes else tensor)
        return (tensor.requires_grad_(len(values) in program.leaves),)

    for position, part in enumerate(program.parts):
        try:
            if isinstance(part, Input):
                made = read(part, (len(values), position, SETS.index(name)))
            else:
                made = applied(part, values, size)
        except Exception as error:  # noqa: BLE001 - a finding, unless it has a code or dims are not those of the trace
            code = error.code if isinstance(error, RushlightError) else f"{type(error).__name__}: {error}"
            return Outcome(tuple(values), code, tuple(given))
        values.extend(made)
        shapes.extend([() if tensor is None else tuple(tensor.form.type.shape) for tensor in made])
    return Outcome(tuple(values), None, tuple(given))


def drawn_inputs(program: Program, name: str, shapes: Sequence[tuple[int, ...]]) -> dict[int, Array]:
    """A program's inputs at a set of sizes, by position, as `run_eagerly` draws them. `shapes` are its values'."""
    sizes, drawn, position = sizes_of(program, name), dict[int, Array](), 0

    def size(dim: Dim) -> int:
        if isinstance(dim, Own):
            return sizes[dim.number]
        return dim if isinstance(dim, int) else product_of(dim, shapes)

    for number, part in enumerate(program.parts):
        if isinstance(part, Input):
            drawn[position] = _elements(part, size, (position, number, SETS.index(name)))
        position += 1 if isinstance(part, Input) else part.results
    return drawn


def _without_data(tensor: Tensor) -> Tensor:
    form = tensor.form
    return empty(form.extent, dtype=form.dtype, device="meta").as_strided(form.type.shape, tensor.stride())


def applied(part: Step | Gradient, values: Sequence[object], size: Callable[[Of], object]) -> tuple[Any, ...]:
    """A call's results, or gradients: None where an input is not used."""
    if isinstance(part, Gradient):
        starts = [None if start is None else values[start] for start in part.starts]
        of, by = ([values[position] for position in places] for places in (part.values, part.inputs))
        return grad(of, by, starts, allow_unused=True)
    operands = tuple([replaced_refs(operand, values.__getitem__) for operand in part.operands])
    attrs = {name: replaced_sizes(value, size) for name, value in part.attrs.items()}
    called = in_place(part.op) if part.writes else part.op
    result = called(**part.op.named(operands, attrs))
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _elements(part: Input, size: Callable[[Dim], int], seed: Sequence[int]) -> Array:
    """An array for an input: elements drawn from the sample's, which its operator has a use for."""
    rng = np.random.default_rng(list(seed))
    shape = tuple([size(dim) for dim in part.dims])
    count = int(np.prod(shape, dtype=np.int64))
    flat = part.sample.reshape(-1)
    if part.within is not None:
        top = min([int(flat.max(initial=0)) + 1, *[size(dim) for dim in part.within]])
        drawn = rng.integers(0, max(top, 1), count)
    else:
        drawn = flat[rng.integers(0, flat.size, count)] if flat.size else np.ones(count)
    return _laid_out(drawn.reshape(shape).astype(part.sample.dtype), part.layout)


def _laid_out(array: Array, layout: str) -> Array:
    """The array in memory as `programs.strides_of` says."""
    if layout == "spread":
        wide = np.zeros((*array.shape, 2), array.dtype)
        wide[..., 0] = array
        return wide[..., 0]
    return np.asfortranarray(array) if layout == "reversed" else array


def difference(actual: Handle, expected: Handle) -> str | None:
    """How two tensors differ in any bit, NaNs aside; None if they do not."""
    one, other = array_of(actual), array_of(expected)
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype}{one.shape} instead of {other.dtype}{other.shape}"
    wrong = unlike(one, other)
    if not wrong.any():
        return None
    at = tuple(np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements, first {one[at]!r} instead of {other[at]!r}"
