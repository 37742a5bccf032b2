"""Makes programs by chance: operators of the registry on their samples' arguments, one feeding the next.

Some calls are of in-place forms, on an earlier result, an input, or a copy of one made for that. Some programs end with
gradients of their results, mostly with respect to inputs that these are made from.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.eager.mutation import in_place
from rushlight.ir.dtype import Kind
from rushlight.ir.graph import number_dtype
from rushlight.ir.type import CPU, TensorType
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact, Operator
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope, Size, SizeExpr
from rushlight.testing.programs import (
    Array,
    Dim,
    Gradient,
    Input,
    Of,
    Own,
    Part,
    Program,
    Ref,
    Step,
    dtype_of,
    product_of,
    replaced_refs,
    replaced_sizes,
    strides_of,
)

NUMBERS = (bool, int, float, complex)
LAYOUTS = ("row-major", "row-major", "row-major", "reversed", "spread")
_LONGEST = 4  # calls of a program
_TRIES = 12  # operators that are tried as a further call
_WRITES = 1 / 6  # the share of in-place forms among further calls
_FIRST_WRITES = 1 / 3  # and among first calls, of operators that have one
_MISFITS = 0.1  # of in-place calls that are known to be refused, the share that is kept
_GRADIENTS = 1 / 5  # the share of programs that end with gradients
_STARTS = np.array([1.0, -0.5, 2.0, 0.25, -1.5, 0.0])  # of what the results' gradients consist


def sized_operators() -> list[Operator]:
    """The public operators whose result shapes follow from the operands' shapes alone.

    They come by name, so that a seed's programs do not depend on the order in which modules define them.
    """
    data = Fact.DATA_DEPENDENT | Fact.HOST | Fact.PROMISED
    ops = [op for op in OPERATORS.values() if not op.facts & data and op.samples_rule is not None]
    return sorted(ops, key=lambda op: op.name)


@functools.cache
def _samples_of(name: str) -> tuple[tuple[tuple[object, ...], dict[str, object]], ...]:
    op = OPERATORS[name]
    assert op.samples_rule is not None
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return tuple([op.bind(sample.args, sample.kwargs) for sample in op.samples_rule(rng)])


def make_program(seed: int, number: int, ops: Sequence[Operator], *, functional: bool = False) -> Program:
    """Program `number` of a seed. Operators take turns as its first call.

    A `functional` program neither writes to a tensor nor asks for gradients.
    """
    rng = np.random.default_rng((seed, number))
    maker = _Maker(rng)
    first = ops[number % len(ops)]
    samples = _samples_of(first.name)
    writes = not functional and "inplace" in first.variants and maker.chance(_FIRST_WRITES)
    maker.add(first, *samples[(number // len(ops)) % len(samples)], None, writes)
    writable = [] if functional else [op for op in ops if "inplace" in op.variants]
    for _ in range(int(rng.integers(_LONGEST))):
        if writable and maker.chance(_WRITES):
            maker.extend(writable, True)
        else:
            maker.extend(ops, False)
    if not functional and maker.chance(_GRADIENTS):
        maker.differentiate()
    return Program(f"seed {seed}, program {number}", tuple(maker.parts), tuple(maker.sizes))


def single_calls(op: Operator) -> list[Program]:
    """Programs of one call of an operator on row-major inputs, with equal sizes known to be: one for each sample."""
    programs: list[Program] = []
    for number, sample in enumerate(_samples_of(op.name)):
        maker = _Maker(np.random.default_rng(0))
        if maker.add(op, *sample, None, False):
            plain = [
                replace(part, layout="row-major", apart=False) if isinstance(part, Input) else part
                for part in maker.parts
            ]
            programs.append(Program(f"{op.name}, sample {number}", tuple(plain), tuple(maker.sizes)))
    return programs


class _Maker:
    """Puts one program together. `types` are its values' types with the samples' sizes as hints.

    `origins` has for each value the inputs that it is made from.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.scope = Scope()
        self.parts: list[Part] = []
        self.types: list[TensorType] = []
        self.origins: list[frozenset[int]] = []
        self.results: list[int] = []
        self.sizes: list[Own] = []
        self.symbols: list[SizeExpr] = []

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def own(self, sample: int) -> Own:
        """A new size."""
        symbol = Own(len(self.sizes), sample)
        self.sizes.append(symbol)
        self.symbols.append(self.scope.symbol(hint=sample))
        return symbol

    def size(self, dim: Dim) -> Size:
        """A dim by symbols with hints."""
        if isinstance(dim, Own):
            return self.symbols[dim.number]
        return dim if isinstance(dim, int) else product_of(dim, [type_.shape for type_ in self.types])

    def hint(self, size: Size) -> int:
        """A size as it is at the samples' sizes."""
        hint = self.scope.hint_or_none(size)
        assert hint is not None
        return hint

    def extend(self, ops: Sequence[Operator], writes: bool) -> None:
        """Adds a call that takes an earlier result, if one is found."""
        for _ in range(_TRIES if self.results else 0):
            op = ops[int(self.rng.integers(len(ops)))]
            samples = _samples_of(op.name)
            sample = samples[int(self.rng.integers(len(samples)))]
            taken = self.results[int(self.rng.integers(len(self.results)))]
            if self.add(op, *sample, taken, writes):
                return

    def add(
        self, op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object], taken: int | None, writes: bool
    ) -> bool:
        """Adds a call on a sample's arguments, whose first array becomes value `taken`. Returns whether that fits."""
        before = len(self.parts), len(self.types), len(self.sizes), len(self.results)
        call = _Call(self, op, taken, writes)
        try:
            call.add(operands, attrs)
        except (RushlightError, _Unfit):
            parts, types, sizes, results = before
            del self.parts[parts:], self.types[types:], self.origins[types:], self.results[results:]
            del self.sizes[sizes:], self.symbols[sizes:]
            return False
        return True

    def input(self, part: Input) -> int:
        """Adds an input; its number."""
        shape = tuple([self.size(dim) for dim in part.dims])
        self.parts.append(part)
        self.types.append(TensorType(shape, part.dtype, CPU, strides_of(shape, part.layout)))
        self.origins.append(frozenset([len(self.origins)]))
        return len(self.types) - 1

    def call(self, op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object], writes: bool) -> int:
        """Adds a call; the number of its first result."""
        types = tuple([_typed(operand, self.types) for operand in operands])
        made = op.infer(types, {name: replaced_sizes(value, self.size) for name, value in attrs.items()})
        results = made if isinstance(made, tuple) else (made,)
        if writes:
            self.check_write(op, types[0], made)
            results = types[:1]
        first = len(self.types)
        used: set[int] = set()
        replaced_refs(operands, used.add)
        self.types.extend(results)
        self.origins.extend([frozenset().union(*[self.origins[value] for value in used])] * len(results))
        self.parts.append(Step(op, operands, attrs, len(results), writes))
        return first

    def check_write(self, op: Operator, target: object, made: object) -> None:
        """Whether a result fits its target; mostly it has to."""
        if not isinstance(target, TensorType) or not isinstance(made, TensorType):
            raise _Unfit
        try:
            in_place(op).check(target, made)
        except RushlightError:
            if not self.chance(_MISFITS):
                raise

    def differentiate(self) -> None:
        """Adds the gradients of one or two results, if there are any that have gradients."""
        results = [value for value in self.results if self.has_gradient(value)]
        if not results:
            return
        values = [results[-1 - int(self.rng.integers(min(2, len(results))))]]
        if len(results) > 1 and self.chance(0.3):
            values.append(results[int(self.rng.integers(len(results)))])
        made_from = frozenset().union(*[self.origins[value] for value in values])
        inputs = [value for value in range(len(self.types)) if self.is_input(value)]
        wanted = [
            value for value in inputs if self.has_gradient(value) and self.chance(0.8 if value in made_from else 0.2)
        ]
        if wanted:
            self.parts.append(Gradient(tuple(values), tuple(wanted), tuple([self.start(value) for value in values])))

    def is_input(self, value: int) -> bool:
        """Whether a value comes from outside."""
        return value in self.origins[value]

    def has_gradient(self, value: int) -> bool:
        """Whether values of this dtype have gradients."""
        return self.types[value].dtype.kind >= Kind.FLOAT

    def start(self, value: int) -> int | None:
        """An input for a value's own gradient; None for some without dims."""
        type_ = self.types[value]
        if not type_.ndim and self.chance(0.5):
            return None
        dims = [1 if size == 1 else Of(((value, position),)) for position, size in enumerate(type_.shape)]
        sample = _STARTS.astype(type_.dtype.numpy)
        return self.input(Input(tuple(dims), sample, self.layout(len(dims)), self.chance(0.5), None))

    def layout(self, rank: int) -> str:
        """How an input lies in memory."""
        return LAYOUTS[int(self.rng.integers(len(LAYOUTS)))] if rank else "row-major"


class _Unfit(Exception):
    """A value does not fit a sample's array."""


class _Call:
    """Makes the arguments of one call. `known` says what stands for a size of the sample."""

    def __init__(self, maker: _Maker, op: Operator, taken: int | None, writes: bool) -> None:
        self.maker = maker
        self.op = op
        self.taken = taken
        self.writes = writes
        self.apart = maker.chance(0.5)
        self.known: dict[int, Dim] = {}
        self.data: list[Dim] = []
        self.cut: int | None = None  # the dim whose size decides how many results there are
        self.values: list[tuple[int, tuple[int, ...]]] = []

    def add(self, operands: tuple[object, ...], attrs: Mapping[str, Any]) -> None:
        """Adds inputs and the call."""
        maker = self.maker
        if self.op.schema.results[0].type.endswith("[]"):
            self.cut = attrs["dim"]
        refs: list[object] = [None] * len(operands)
        for indices in (False, True):  # indices are made when the sizes that they lie within are known
            for position, operand in enumerate(operands):
                if refs[position] is None and (indices or not _is_index(self.op, operand)):
                    refs[position] = self.operand(operand)
        if self.taken is not None:
            raise _Unfit
        given = {
            attribute.name: self.attribute(attribute.type, attrs[attribute.name])
            for attribute in self.op.schema.attributes
        }
        if self.writes:
            refs[0] = self.target(refs[0])
        first = maker.call(self.op, tuple(refs), given, self.writes)
        maker.results.extend(range(first, len(maker.types)))

    def target(self, operand: object) -> Ref:
        """What is written to: the first operand, or a copy of it where that is an input, but for some."""
        maker = self.maker
        if not isinstance(operand, Ref):
            raise _Unfit
        if not maker.is_input(operand.value) or maker.chance(0.3):
            return operand
        return Ref(maker.call(OPERATORS["clone"], (operand,), {}, False))

    def operand(self, operand: object) -> object:
        """An operand of the sample as a Ref, or as it is."""
        if isinstance(operand, (tuple, list)):
            return tuple([self.operand(part) for part in operand])
        if operand is None or type(operand) in NUMBERS:
            return operand
        array = np.asarray(operand)
        value = self.take(array) if self.taken is not None else self.input(array)
        self.values.append((value, array.shape))
        return Ref(value)

    def take(self, array: Array) -> int:
        """The earlier result in place of an array of the same dtype and rank."""
        maker, value = self.maker, self.taken
        assert value is not None
        self.taken = None
        type_ = maker.types[value]
        if type_.weak or type_.dtype is not dtype_of(array) or type_.ndim != array.ndim:
            raise _Unfit
        for position, (sample, size) in enumerate(zip(array.shape, type_.shape, strict=True)):
            one = isinstance(size, int) and size == 1
            origin = self.known.setdefault(sample, Of(((value, position),)))
            if self.cut is not None and self.cut % array.ndim == position and not isinstance(size, int):
                raise _Unfit
            if one != (sample == 1) or maker.hint(maker.size(origin)) != maker.hint(size):
                raise _Unfit
            self.data.append(origin)
        return value

    def input(self, array: Array) -> int:
        """A new input like an array: sizes other than 1 are open."""
        maker = self.maker
        dims = tuple([self.dim_of(array, position) for position in range(array.ndim)])
        index = _is_index(self.op, array)
        layout = maker.layout(array.ndim)
        value = maker.input(Input(dims, array, layout, self.apart, tuple(self.data) if index else None))
        if not index:
            self.data.extend(dims)
        return value

    def dim_of(self, array: Array, position: int) -> Dim:
        """What stands for a size of the sample: equal ones go together; 1 is broadcast, and stays."""
        sample = array.shape[position]
        if sample == 1 or (self.cut is not None and self.cut % array.ndim == position):
            return sample
        origin = self.known.get(sample)
        if origin is None:
            origin = self.known[sample] = self.maker.own(sample)
        return origin

    def attribute(self, type_: str, value: object) -> object:
        """A sample's attribute, with sizes of the operands in place of equal numbers, mostly."""
        if not (type_.startswith("Size") or type_ == "any"):
            return value
        follows = self.maker.chance(0.8)
        if isinstance(value, (tuple, list)):
            return tuple([self.size_like(element) if follows else element for element in value])
        return self.size_like(value) if follows and self.cut is None else value

    def size_like(self, number: object) -> object:
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


def _is_index(op: Operator, operand: object) -> bool:
    """Whether an operand holds indices: integers beside an operator's data."""
    if isinstance(operand, (tuple, list)):
        return any(_is_index(op, part) for part in operand)
    return isinstance(operand, np.ndarray) and operand.dtype.kind in "iu" and op.dtypes not in ("int", "integral")


def _typed(operand: Any, types: Sequence[TensorType]) -> Any:
    """An operand's type."""
    if type(operand) in NUMBERS:
        return TensorType((), number_dtype(operand), CPU, weak=True)
    if isinstance(operand, tuple):
        return tuple([_typed(element, types) for element in operand])
    return types[operand.value] if isinstance(operand, Ref) else operand
