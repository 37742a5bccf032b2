"""Programs by chance: operators of the registry on their samples' arguments, one feeding the next.

A program says of sizes only how they go together: a dim of an input has a size of its own, or that of a dim of
something made before. So it can run at any sizes, and be traced at none.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rushlight.ir.dtype import DType, from_numpy_dtype
from rushlight.ir.graph import number_dtype
from rushlight.ir.type import CPU, TensorType
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact, Operator
from rushlight.support.errors import RushlightError
from rushlight.support.frozen import frozen
from rushlight.sym import Scope, Size, SizeExpr, product

Array = NDArray[Any]
S = TypeVar("S")
NUMBERS = (bool, int, float, complex)
LAYOUTS = ("row-major", "row-major", "row-major", "reversed", "spread")
_LONGEST = 4  # calls of a program
_TRIES = 12  # operators that are tried as a further call


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


def _dtype_of(array: Array) -> DType:
    found = from_numpy_dtype(array.dtype)
    assert found is not None, "a sample of an operator has a dtype"
    return found


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
        return _dtype_of(self.sample)


@frozen
class Step:
    """A call. Operands are Refs, numbers, None and tuples of these; attributes may have an `Of` for a size."""

    op: Operator
    operands: tuple[Any, ...]
    attrs: Mapping[str, Any]
    results: int


@frozen
class Program:
    """Inputs and calls, in the order in which their values are counted, and the sizes that the caller chooses."""

    name: str
    parts: tuple[Input | Step, ...]
    sizes: tuple[Own, ...]

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the operators that it calls, in order."""
        return tuple([part.op.name for part in self.parts if isinstance(part, Step)])

    def __str__(self) -> str:
        lines = [self.name]
        place = 0
        for part in self.parts:
            if isinstance(part, Input):
                sizes = ", ".join([_dim_text(dim) for dim in part.dims])
                apart = " apart" if part.apart else ""
                lines.append(f"  v{place}: {part.dtype.name}[{sizes}] {part.layout}{apart}")
                place += 1
            else:
                attrs = {name: replaced_sizes(value, _dim_text) for name, value in part.attrs.items()}
                text = ", ".join([_operand_text(operand) for operand in part.operands])
                lines.append(f"  v{place} = {part.op.name}({text}) {attrs}")
                place += part.results
        return "\n".join(lines)


def _dim_text(dim: Dim) -> str:
    if isinstance(dim, Own):
        return f"n{dim.number}={dim.sample}"
    return str(dim) if isinstance(dim, int) else "*".join([f"v{value}.{place}" for value, place in dim.dims])


def _operand_text(operand: Any) -> str:
    if isinstance(operand, tuple):
        return f"[{', '.join([_operand_text(item) for item in operand])}]"
    return f"v{operand.value}" if isinstance(operand, Ref) else repr(operand)


def replaced_sizes(value: Any, image: Callable[[Of], Any]) -> Any:
    """An attribute with an image in place of each `Of`."""
    if isinstance(value, tuple):
        return tuple([replaced_sizes(item, image) for item in value])
    return image(value) if isinstance(value, Of) else value


def replaced_refs(operand: Any, image: Callable[[int], Any]) -> Any:
    """An operand with an image in place of each value."""
    if isinstance(operand, tuple):
        return tuple([replaced_refs(item, image) for item in operand])
    return image(operand.value) if isinstance(operand, Ref) else operand


def product_of(dim: Of, shapes: Sequence[Sequence[Any]]) -> Any:
    """The size that an `Of` stands for, by the shapes of the values."""
    return product([shapes[value][place] for value, place in dim.dims])


def sized_operators() -> list[Operator]:
    """The operators whose results have shapes that follow from the operands' shapes alone, and that users call."""
    data = Fact.DATA_DEPENDENT | Fact.HOST | Fact.PROMISED
    return [op for op in OPERATORS.values() if not op.facts & data and op.samples_rule is not None]


@functools.cache
def _samples_of(name: str) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]:
    op = OPERATORS[name]
    assert op.samples_rule is not None
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return tuple([op.bind(sample.args, sample.kwargs) for sample in op.samples_rule(rng)])


def make_program(seed: int, number: int, ops: Sequence[Operator]) -> Program:
    """Program `number` of a seed. Operators take turns as its first call."""
    rng = np.random.default_rng((seed, number))
    maker = _Maker(rng)
    first = ops[number % len(ops)]
    samples = _samples_of(first.name)
    maker.add(first, *samples[(number // len(ops)) % len(samples)], None)
    for _ in range(int(rng.integers(_LONGEST))):
        maker.extend(ops)
    return Program(f"seed {seed}, program {number}", tuple(maker.parts), tuple(maker.sizes))


class _Maker:
    """Puts one program together. `types` are its values' types with the samples' sizes as hints."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.scope = Scope()
        self.parts: list[Input | Step] = []
        self.types: list[TensorType] = []
        self.results: list[int] = []
        self.sizes: list[Own] = []
        self.symbols: list[SizeExpr] = []

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def own(self, sample: int) -> Own:
        """A new size."""
        found = Own(len(self.sizes), sample)
        self.sizes.append(found)
        self.symbols.append(self.scope.symbol(hint=sample))
        return found

    def size(self, dim: Dim) -> Size:
        """A dim by symbols with hints."""
        if isinstance(dim, Own):
            return self.symbols[dim.number]
        return dim if isinstance(dim, int) else product_of(dim, [type_.shape for type_ in self.types])

    def hint(self, size: Size) -> int:
        """A size as it is at the samples' sizes."""
        found = self.scope.hint_or_none(size)
        assert found is not None
        return found

    def extend(self, ops: Sequence[Operator]) -> None:
        """Adds a call that takes an earlier result, if one is found."""
        for _ in range(_TRIES if self.results else 0):
            op = ops[int(self.rng.integers(len(ops)))]
            samples = _samples_of(op.name)
            sample = samples[int(self.rng.integers(len(samples)))]
            taken = self.results[int(self.rng.integers(len(self.results)))]
            if self.add(op, *sample, taken):
                return

    def add(self, op: Operator, operands: tuple[Any, ...], attrs: Mapping[str, Any], taken: int | None) -> bool:
        """Adds a call on a sample's arguments, the first array of which is the value `taken`; whether that fits."""
        before = len(self.parts), len(self.types), len(self.sizes)
        call = _Call(self, op, taken)
        try:
            call.add(operands, attrs)
        except (RushlightError, _Unfit):
            del self.parts[before[0] :], self.types[before[1] :], self.sizes[before[2] :], self.symbols[before[2] :]
            return False
        return True


class _Unfit(Exception):
    """A value does not fit a sample's array."""


class _Call:
    """Makes the arguments of one call. `known` says what stands for a size of the sample."""

    def __init__(self, maker: _Maker, op: Operator, taken: int | None) -> None:
        self.maker = maker
        self.op = op
        self.taken = taken
        self.apart = maker.chance(0.5)
        self.known: dict[int, Dim] = {}
        self.data: list[Dim] = []
        self.cut: int | None = None  # the dim whose size decides how many results there are
        self.values: list[tuple[int, tuple[int, ...]]] = []

    def add(self, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> None:
        """Adds inputs and the call."""
        maker = self.maker
        if self.op.schema.results[0].type.endswith("[]"):
            self.cut = attrs["dim"]
        refs: list[Any] = [None] * len(operands)
        for indices in (False, True):  # indices are made when the sizes that they lie within are known
            for place, item in enumerate(operands):
                if refs[place] is None and (indices or not _is_index(self.op, item)):
                    refs[place] = self.operand(item)
        if self.taken is not None:
            raise _Unfit
        given = {item.name: self.attribute(item.type, attrs[item.name]) for item in self.op.schema.attributes}
        step = Step(self.op, tuple(refs), given, 0)
        types = tuple([_typed(operand, maker.types) for operand in step.operands])
        sizes = {name: replaced_sizes(value, maker.size) for name, value in given.items()}
        made = self.op.infer(types, sizes)
        results = made if isinstance(made, tuple) else (made,)
        first = len(maker.types)
        maker.types.extend(results)
        maker.results.extend(range(first, first + len(results)))
        maker.parts.append(Step(self.op, step.operands, given, len(results)))

    def operand(self, item: Any) -> Any:
        """An operand of the sample as a Ref, or as it is."""
        if isinstance(item, (tuple, list)):
            return tuple([self.operand(part) for part in item])
        if item is None or type(item) in NUMBERS:
            return item
        array = np.asarray(item)
        value = self.take(array) if self.taken is not None else self.input(array)
        self.values.append((value, array.shape))
        return Ref(value)

    def take(self, array: Array) -> int:
        """The earlier result in place of an array of the same dtype and rank."""
        maker, value = self.maker, self.taken
        assert value is not None
        self.taken = None
        type_ = maker.types[value]
        if type_.weak or type_.dtype is not _dtype_of(array) or type_.ndim != array.ndim:
            raise _Unfit
        for place, (sample, size) in enumerate(zip(array.shape, type_.shape, strict=True)):
            one = isinstance(size, int) and size == 1
            known = self.known.setdefault(sample, Of(((value, place),)))
            if self.cut is not None and self.cut % array.ndim == place and not isinstance(size, int):
                raise _Unfit
            if one != (sample == 1) or maker.hint(maker.size(known)) != maker.hint(size):
                raise _Unfit
            self.data.append(known)
        return value

    def input(self, array: Array) -> int:
        """A new input like an array: sizes other than 1 are open."""
        maker = self.maker
        dims = tuple([self.dim_of(array, place) for place in range(array.ndim)])
        index = _is_index(self.op, array)
        layout = LAYOUTS[int(maker.rng.integers(len(LAYOUTS)))] if array.ndim else "row-major"
        maker.parts.append(Input(dims, array, layout, self.apart, tuple(self.data) if index else None))
        shape = tuple([maker.size(dim) for dim in dims])
        maker.types.append(TensorType(shape, _dtype_of(array), CPU, strides_of(shape, layout)))
        if not index:
            self.data.extend(dims)
        return len(maker.types) - 1

    def dim_of(self, array: Array, place: int) -> Dim:
        """What stands for a size of the sample: equal ones go together; 1 is broadcast, and stays."""
        sample = array.shape[place]
        if sample == 1 or (self.cut is not None and self.cut % array.ndim == place):
            return sample
        found = self.known.get(sample)
        if found is None:
            found = self.known[sample] = self.maker.own(sample)
        return found

    def attribute(self, type_: str, value: Any) -> Any:
        """A sample's attribute, with sizes of the operands in place of equal numbers, mostly."""
        if not (type_.startswith("Size") or type_ == "any"):
            return value
        follows = self.maker.chance(0.8)
        if isinstance(value, (tuple, list)):
            return tuple([self.size_like(item) if follows else item for item in value])
        return self.size_like(value) if follows and self.cut is None else value

    def size_like(self, number: Any) -> Any:
        """A dim, or a run of dims, of the operands that has this size in the sample; else the number."""
        if type(number) is not int or number < 2:
            return number
        runs = [
            (value, first, end)
            for value, shape in self.values
            for first in range(len(shape))
            for end in range(first + 1, len(shape) + 1)
            if math.prod(shape[first:end]) == number
        ]
        if not runs:
            return number
        value, first, end = runs[0]
        return Of(tuple([(value, dim) for dim in range(first, end)]))


def _is_index(op: Operator, item: Any) -> bool:
    """Whether an operand holds indices: integers beside an operator's data."""
    if isinstance(item, (tuple, list)):
        return any(_is_index(op, part) for part in item)
    return isinstance(item, np.ndarray) and item.dtype.kind in "iu" and op.dtypes not in ("int", "integral")


def _typed(operand: Any, types: Sequence[TensorType]) -> Any:
    """An operand's type."""
    if type(operand) in NUMBERS:
        return TensorType((), number_dtype(operand), CPU, weak=True)
    if isinstance(operand, tuple):
        return tuple([_typed(item, types) for item in operand])
    return types[operand.value] if isinstance(operand, Ref) else operand


def strides_of(shape: Sequence[Any], layout: str) -> tuple[Any, ...]:
    """The strides of an input: row-major, column-major, or row-major with a gap beside each element."""
    order = range(len(shape)) if layout == "reversed" else range(len(shape) - 1, -1, -1)
    strides: list[Any] = [1] * len(shape)
    step: Any = 2 if layout == "spread" else 1
    for dim in order:
        strides[dim] = step
        step = step * (1 if isinstance(shape[dim], int) and shape[dim] == 0 else shape[dim])
    return tuple(strides)
