"""What a program by chance is: inputs, calls of operators and of their in-place forms, and gradients at its end.

A program says of sizes only how they go together: a dim of an input has a size of its own, or that of a dim of
something made before. So it can run at any sizes, and be traced at none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from rushlight.ir.dtype import DType, from_numpy_dtype
from rushlight.ops.record import Operator
from rushlight.support.frozen import frozen
from rushlight.sym import Size, product

Array = NDArray[Any]


@frozen
class Own:
    """A size that the program's caller chooses; `sample` is what the operator's sample has."""

    number: int
    sample: int


@frozen
class Of:
    """The product of sizes of earlier values: (value, dim) pairs."""

    dims: tuple[tuple[int, int], ...]


Dim = int | Own | Of


@frozen
class Ref:
    """Value number `value` of a program: inputs and results are counted together."""

    value: int


def dtype_of(array: Array) -> DType:
    """The dtype of a sample's elements."""
    dtype = from_numpy_dtype(array.dtype)
    assert dtype is not None, "a sample of an operator has a dtype"
    return dtype


@frozen
class Input:
    """A tensor from outside. Its elements are drawn from a sample's; indices are `within` the smallest of some sizes.

    With `apart` each dim is traced as a symbol of its own, even where the program knows two sizes to be equal.
    """

    dims: tuple[Dim, ...]
    sample: Array
    layout: str
    apart: bool
    within: tuple[Dim, ...] | None

    @property
    def dtype(self) -> DType:
        """The dtype of its elements."""
        return dtype_of(self.sample)


@frozen
class Step:
    """A call. Operands are Refs, numbers, None and tuples of these; attributes may have an `Of` for a size.

    One that `writes` is of the operator's in-place form: its result is the first operand, under a further number.
    """

    op: Operator
    operands: tuple[object, ...]
    attrs: Mapping[str, object]
    results: int
    writes: bool

    @property
    def name(self) -> str:
        """The operator's name, or that of its in-place form."""
        return self.op.name + "_" * self.writes


@frozen
class Gradient:
    """The gradients of values with respect to inputs that require them. None for an input that is not used.

    `starts` are the values' own gradients: inputs, or None for a value of one element, whose gradient is 1 then.
    """

    values: tuple[int, ...]
    inputs: tuple[int, ...]
    starts: tuple[int | None, ...]

    @property
    def results(self) -> int:
        """How many gradients there are."""
        return len(self.inputs)


Part = Input | Step | Gradient


@frozen
class Program:
    """Inputs, calls and gradients, in the order of their values, and the sizes that callers choose.

    Only its last part may be gradients.
    """

    name: str
    parts: tuple[Part, ...]
    sizes: tuple[Own, ...]

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the operators that it calls, in order."""
        return tuple([part.op.name for part in self.parts if isinstance(part, Step)])

    @property
    def leaves(self) -> tuple[int, ...]:
        """The inputs that require gradients."""
        last = self.parts[-1] if self.parts else None
        return last.inputs if isinstance(last, Gradient) else ()

    @property
    def gradients(self) -> int:
        """How many gradients it ends with."""
        return len(self.leaves)

    @property
    def writes(self) -> bool:
        """Whether some call is of an in-place form."""
        return any(isinstance(part, Step) and part.writes for part in self.parts)

    def __str__(self) -> str:
        lines = [self.name]
        position = 0
        for part in self.parts:
            lines.append(f"  {_part_text(part, position)}")
            position += 1 if isinstance(part, Input) else part.results
        return "\n".join(lines)


def _part_text(part: Part, position: int) -> str:
    if isinstance(part, Input):
        sizes = ", ".join([_dim_text(dim) for dim in part.dims])
        return f"v{position}: {part.dtype.name}[{sizes}] {part.layout}{' apart' if part.apart else ''}"
    if isinstance(part, Gradient):
        of, by = (", ".join([f"v{value}" for value in values]) for values in (part.values, part.inputs))
        starts = ", ".join(["1" if start is None else f"v{start}" for start in part.starts])
        return f"v{position} = gradients of {of} by {by} from {starts}"
    attrs = {name: replaced_sizes(value, _dim_text) for name, value in part.attrs.items()}
    text = ", ".join([_operand_text(operand) for operand in part.operands])
    return f"v{position} = {part.name}({text}) {attrs}"


def _dim_text(dim: Dim) -> str:
    if isinstance(dim, Own):
        return f"n{dim.number}={dim.sample}"
    return str(dim) if isinstance(dim, int) else "*".join([f"v{value}.{position}" for value, position in dim.dims])


def _operand_text(operand: object) -> str:
    if isinstance(operand, tuple):
        return f"[{', '.join([_operand_text(element) for element in operand])}]"
    return f"v{operand.value}" if isinstance(operand, Ref) else repr(operand)


def replaced_sizes(value: object, image: Callable[[Of], object]) -> object:
    """An attribute with an image in place of each `Of`."""
    if isinstance(value, tuple):
        return tuple([replaced_sizes(element, image) for element in value])
    return image(value) if isinstance(value, Of) else value


def replaced_refs(operand: object, image: Callable[[int], object]) -> object:
    """An operand with an image in place of each value."""
    if isinstance(operand, tuple):
        return tuple([replaced_refs(element, image) for element in operand])
    return image(operand.value) if isinstance(operand, Ref) else operand


def product_of(dim: Of, shapes: Sequence[Sequence[Size]]) -> Any:
    """The size that an `Of` stands for, by the shapes of the values."""
    return product([shapes[value][position] for value, position in dim.dims])


def strides_of(shape: Sequence[Size], layout: str) -> tuple[Size, ...]:
    """The strides of an input: row-major, column-major, or row-major with a gap beside each element."""
    order = range(len(shape)) if layout == "reversed" else range(len(shape) - 1, -1, -1)
    strides: list[Size] = [1] * len(shape)
    step: Size = 2 if layout == "spread" else 1
    for dim in order:
        strides[dim] = step
        step = step * (1 if isinstance(shape[dim], int) and shape[dim] == 0 else shape[dim])
    return tuple(strides)
