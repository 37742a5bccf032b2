"""The cases of the generated matrix: an operator's samples in dtypes, layouts, sizes and values from the harness.

Operators give samples; everything else comes from here. A case is a name, as `s0-float32-transposed-odd-given`: the
sample's position, the dtype of its data, how its arrays lie in memory, how its sizes are changed, and which values it
has. The choice covers pairs rather than the full product, since each combination of dtype and layout is compiled.
"""

import dataclasses
import functools
import itertools
import warnings
import zlib
from typing import Any

import numpy as np

from rushlight.ir.dtype import BY_NAME, DTYPES, DType, Kind, from_numpy_dtype
from rushlight.ir.graph import number_dtype
from rushlight.ir.sizes import bind_symbols
from rushlight.ir.type import CPU, TensorType
from rushlight.ops import OPERATORS
from rushlight.ops.pointwise.definition import DOMAINS
from rushlight.ops.record import FAMILIES, Fact, Operator
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope

NUMBERS = (bool, int, float, complex)
LAYOUTS = ("transposed", "expanded", "offset", "strided", "overlapping")
SIZES = ("zero", "one", "odd", "long")
ODD_SIZES = (17, 11, 9, 7, 5, 3)  # for the sizes of a sample, largest first
ODD_SIZES_OF_DEEP = (7, 5, 5, 3, 3, 3)
LONG_OF_DEEP = 37
LONG = 301  # past a block of 256 terms
LONGEST = 8195  # past the 8192 terms of the lane order
# Dtypes that are computed in ways of their own; they come in other layouts too.
VARIED = ("bool", "int64", "float16", "bfloat16", "float64", "complex64")
GUARD = 7  # elements around an array that nobody may touch


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to call an operator."""

    op: str
    sample: int
    dtype: str = "given"
    layout: str = "contiguous"
    size: str = "given"
    values: str = "given"

    def __str__(self) -> str:
        return f"s{self.sample}-{self.dtype}-{self.layout}-{self.size}-{self.values}"

    @property
    def operator(self) -> Operator:
        return OPERATORS[self.op]


def parse_case(op: str, name: str) -> Case:
    """The case that prints as `name`."""
    sample, *rest = name.split("-")
    return Case(op, int(sample[1:]), *rest)


class Leaf:
    """An array among the operands: `data` takes the case's dtype, `index` and `mask` keep theirs."""

    __slots__ = ("array", "role")

    def __init__(self, array, role):
        self.array = np.asarray(array)
        self.role = role


@dataclasses.dataclass
class Arguments:
    """Operands (Leafs, numbers, None, tuples of Leafs) and attributes of one call."""

    operands: tuple
    attrs: dict
    domain: str | None = None

    def leaves(self, role=None):
        """The Leafs in order, of one role or of all."""
        found = []
        map_leaves(self.operands, found.append)
        return [leaf for leaf in found if role is None or leaf.role == role]


def map_leaves(items, function):
    """Operands with `function` applied to every Leaf."""
    return tuple(
        map_leaves(item, function) if isinstance(item, tuple) else function(item) if isinstance(item, Leaf) else item
        for item in items
    )


def map_arrays(arguments, function):
    """Arguments with the array of every Leaf replaced."""
    operands = map_leaves(arguments.operands, lambda leaf: Leaf(function(leaf), leaf.role))
    return dataclasses.replace(arguments, operands=operands)


# Operators that run graphs stand in programs alone: tests/capture/test_control_flow.py asks about those.
ASKED = [name for name, op in OPERATORS.items() if not op.facts & (Fact.CONTROL | Fact.EFFECT)]


# Samples.


def role_of(op, array):
    if array.dtype.kind in "fc" or array.dtype.name == "bfloat16":
        return "data"
    if array.dtype.kind == "b":
        return "data" if op.dtypes == "integral" else "mask"
    return "data" if op.dtypes in ("int", "integral") else "index"


@functools.cache
def sample_arguments(name: str) -> tuple[Arguments, ...]:
    """An operator's samples; the same at every call."""
    op = OPERATORS[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found = []
    for sample in op.samples_rule(rng):
        operands, attrs = op.bind(sample.args, sample.kwargs)
        found.append(Arguments(tuple(_as_leaves(op, item) for item in operands), attrs, sample.domain))
    return tuple(found)


def tensors_first(name: str) -> list[int]:
    """The samples of an operator whose first operand is no number: public functions take none first."""
    samples = sample_arguments(name)
    return [at for at, one in enumerate(samples) if not isinstance(next(iter(one.operands), None), int | float)]


def _as_leaves(op, item):
    if isinstance(item, (tuple, list)):
        return tuple(_as_leaves(op, part) for part in item)
    if item is None or type(item) in NUMBERS:
        return item
    array = np.asarray(item)
    return Leaf(array, role_of(op, array))


def types_of(arguments: Arguments) -> tuple:
    """The operands' types: contiguous, or with the strides of their arrays."""

    def typed(item):
        if isinstance(item, tuple):
            return tuple(typed(part) for part in item)
        if item is None:
            return None
        if type(item) in NUMBERS:
            return TensorType((), number_dtype(item), CPU, weak=True)
        array = item.array
        strides = tuple(stride // array.itemsize for stride in array.strides) if array.size else None
        return TensorType(array.shape, from_numpy_dtype(array.dtype), CPU, strides)

    return typed(arguments.operands)


# Dtypes.


def converted(arguments: Arguments, dtype: DType) -> Arguments:
    """The data in another dtype, still in the sample's domain."""

    def convert(leaf):
        if leaf.role != "data" or leaf.array.dtype == dtype.numpy:
            return leaf.array
        return converted_values(leaf.array, dtype, arguments.domain)

    return map_arrays(arguments, convert)


def converted_values(array, dtype, domain):
    """An array's values in a dtype: floats of use to it, rounded to integers where these are wanted."""
    if array.dtype.kind in "biu":
        whole = array.astype(np.int64)
        return (np.abs(whole) if not dtype.signed else whole).astype(dtype.numpy)
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    if dtype.kind is Kind.COMPLEX:
        return (wide + 0.5j * np.roll(wide, 1)).astype(dtype.numpy)
    if dtype.kind is Kind.FLOAT:
        # Low bits that float32 samples do not have.
        return (wide.real * (1 + 1e-9)).astype(dtype.numpy)
    wide = np.nan_to_num(wide.real, nan=0.0, posinf=9.0, neginf=-9.0)
    if dtype.kind is Kind.BOOL:
        return wide > (-1 if domain in ("nonzero", "positive", "above_one") else 0)
    scale = 1 if domain in ("unit", "probability", "count") else 4
    whole = np.trunc(wide * scale) if scale == 1 else np.where(wide < 0, np.floor(wide * scale), np.ceil(wide * scale))
    whole = np.abs(whole) if not dtype.signed else whole
    return np.clip(whole, -100, 100).astype(dtype.numpy)


def base_dtype(arguments: Arguments) -> str:
    """The name of the data's dtype; `given` where it has none, or several."""
    names = {from_numpy_dtype(leaf.array.dtype).name for leaf in arguments.leaves("data")}
    return names.pop() if len(names) == 1 else "given"


def family(op: Operator) -> list[DType]:
    """The dtypes that an operator says it accepts."""
    return [dtype for dtype in DTYPES if dtype.kind in FAMILIES[op.dtypes]]


def refusal(arguments: Arguments, op: Operator) -> RushlightError | None:
    """The registered error that typing answers these arguments with, if it does."""
    try:
        op.infer(types_of(arguments), {**arguments.attrs, **dict.fromkeys(op.unbacked_outputs, 1)})
    except RushlightError as error:
        return error
    except Exception:
        return None  # a case of its own: the question about meta fails on it
    return None


@functools.cache
def data_dtypes(name: str) -> tuple[DType, ...]:
    """The dtypes that an operator's data can have: its family's, complex ones only where typing accepts them."""
    op = OPERATORS[name]
    sample = next((item for item in sample_arguments(name) if item.leaves("data")), None)
    if sample is None:
        return ()
    kept = []
    for dtype in family(op):
        if dtype.kind is Kind.COMPLEX:
            error = refusal(converted(sample, dtype), op)
            if error is not None and error.code == "D006":
                continue
        kept.append(dtype)
    return tuple(kept)


@functools.cache
def refused_dtypes(name: str) -> tuple[DType, ...]:
    """The dtypes that an operator has to refuse."""
    if not any(item.leaves("data") for item in sample_arguments(name)):
        return ()
    return tuple(dtype for dtype in DTYPES if dtype not in data_dtypes(name))


# Layouts.


def laid_out(leaf: Leaf, layout: str):
    """The values of an array lying otherwise in memory; `expanded` and `overlapping` ones repeat some of them."""
    array = leaf.array
    if layout == "contiguous" or array.size == 0:
        return np.ascontiguousarray(array).reshape(array.shape)
    if layout in ("expanded", "overlapping") and leaf.role != "data":
        layout = "strided"
    return _LAYOUTS[layout](array)


def _transposed(array):
    return np.asfortranarray(array)


def _expanded(array):
    dims = [dim for dim in range(array.ndim) if array.shape[dim] > 1]
    if not dims:
        return array.copy()
    dim = dims[0]
    kept = np.ascontiguousarray(np.take(array, [0], dim))
    steps = [0 if at == dim else step for at, step in enumerate(kept.strides)]
    return np.lib.stride_tricks.as_strided(kept, array.shape, steps)


def _offset(array):
    buffer = np.resize(array.reshape(-1), array.size + 2 * GUARD).astype(array.dtype)
    view = buffer[GUARD : GUARD + array.size].reshape(array.shape)
    view[...] = array
    return view


def _strided(array):
    shape = (*array.shape[:-1], 2 * array.shape[-1] + 1) if array.ndim else (3,)
    buffer = np.resize(array.reshape(-1), shape).astype(array.dtype)
    view = buffer[..., 1::2] if array.ndim else buffer[1:2].reshape(())
    view[...] = array
    return view


def _overlapping(array):
    if array.ndim < 2:
        return _strided(array)
    steps = [1] * array.ndim
    for dim in reversed(range(array.ndim - 1)):
        steps[dim] = steps[dim + 1] * max(1, array.shape[dim + 1] - 1)
    extent = 1 + sum((size - 1) * step for size, step in zip(array.shape, steps, strict=True))
    buffer = array.reshape(-1)[:extent].copy()
    return np.lib.stride_tricks.as_strided(buffer, array.shape, [step * array.itemsize for step in steps])


_LAYOUTS = {
    "transposed": _transposed,
    "expanded": _expanded,
    "offset": _offset,
    "strided": _strided,
    "overlapping": _overlapping,
}


# Sizes.


def size_map(op: Operator, arguments: Arguments, size: str) -> dict[int, int] | None:
    """How a change of sizes maps those of a sample; None where nothing changes."""
    sizes = sorted({n for leaf in arguments.leaves() for n in leaf.array.shape if n > 1}, reverse=True)
    if not sizes:
        return None
    deep = max(leaf.array.ndim for leaf in arguments.leaves()) > 3
    if size == "odd":
        return dict(zip(sizes, ODD_SIZES_OF_DEEP if deep else ODD_SIZES, strict=False))
    if size == "long":
        small = len(arguments.leaves()) == 1 and arguments.leaves()[0].array.ndim <= 2
        return {sizes[0]: LONGEST if Fact.REDUCTION in op.facts and small else LONG_OF_DEEP if deep else LONG}
    return {sizes[0]: 0 if size == "zero" else 1}


def resized(op: Operator, arguments: Arguments, size: str) -> Arguments | None:
    """The arguments with other sizes; None where the operator has none to change or refuses these."""
    mapping = size_map(op, arguments, size)
    if mapping is None:
        return None
    if size == "zero" and arguments.leaves("index"):
        return None  # there is nothing left to point at
    if any(item.name == "grad" for item in op.schema.operands) and Fact.POINTWISE not in op.facts:
        return None  # a gradient's sizes follow from those of what it is the gradient of
    rng = np.random.default_rng(1)
    sizes = [mapping.get(n, n) for leaf in arguments.leaves("data") for n in leaf.array.shape]
    bound = min(sizes, default=None)

    def resize(leaf):
        shape = tuple(mapping.get(n, n) for n in leaf.array.shape)
        count = int(np.prod(shape))
        flat = leaf.array.reshape(-1)
        if flat.size == 0:
            return np.ones(shape, leaf.array.dtype)
        if leaf.role == "index":
            top = int(flat.max()) + 1
            top = max(1, top if bound is None else min(top, bound))
            return np.resize(np.arange(top), shape).astype(leaf.array.dtype)
        return flat[rng.integers(0, flat.size, count)].reshape(shape)

    attrs = {name: _mapped(op, name, value, mapping) for name, value in arguments.attrs.items()}
    found = dataclasses.replace(map_arrays(arguments, resize), attrs=attrs)
    return found if refusal(found, op) is None and _has_meaning(op, found) else None


def _has_meaning(op, arguments):
    """Whether changed sizes still go together, where attributes and values decide that typing does not see."""
    decided = Fact.HOST in op.facts or any(item.type != "bool" for item in op.schema.attributes)
    if op.facts & (Fact.POINTWISE | Fact.VIEW) or not decided:
        return True
    try:
        reference(op, in_domain_of_matrices(arguments))
    except (ValueError, IndexError):
        return False
    return True


def reference(op: Operator, arguments: Arguments) -> tuple:
    """The operator's meaning as a tuple of arrays."""
    operands = _arrays(arguments.operands)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = op.ref_rule(**op.named(operands, arguments.attrs))
    return tuple(np.asarray(item) for item in found) if isinstance(found, (tuple, list)) else (np.asarray(found),)


def typing_attrs(op: Operator, arguments: Arguments) -> dict:
    """The attributes with which `infer` gives the types of one call: sizes that only values tell are filled in."""
    scope = Scope()
    unbacked_symbols = {name: scope.symbol() for name in op.unbacked_outputs}
    if not unbacked_symbols:
        return arguments.attrs
    found = op.infer(types_of(arguments), {**arguments.attrs, **unbacked_symbols})
    values: dict = {}
    for type_, array in zip(found if isinstance(found, tuple) else (found,), reference(op, arguments), strict=True):
        bind_symbols(type_, array.shape, type_.strides, values)
    return {**arguments.attrs, **{name: values.get(symbol, 0) for name, symbol in unbacked_symbols.items()}}


def _arrays(items):
    return tuple(
        _arrays(item) if isinstance(item, tuple) else item.array if isinstance(item, Leaf) else item for item in items
    )


def _mapped(op, name, value, mapping):
    type_ = next(item.type for item in op.schema.attributes if item.name == name)
    if not type_.startswith("Size"):
        return value
    if isinstance(value, tuple):
        return tuple(mapping.get(item, item) for item in value)
    return mapping.get(value, value)


# Values.


def special_values(dtype: DType):
    """Values at which arithmetic has edges."""
    if dtype.kind is Kind.BOOL:
        return np.array([False, True])
    if dtype.kind is Kind.INT:
        limits = np.iinfo(dtype.numpy)
        near = [0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min + 1]
        return np.array(near + ([-1, -2] if dtype.signed else []), dtype.numpy)
    if dtype.kind is Kind.COMPLEX:
        parts = [0.0, -0.0, 1.0, -1.5]
        return np.array([complex(x, y) for x in parts for y in parts], dtype.numpy)
    digits, least, top = FLOATS[dtype.name]
    smallest, normal, largest = 2.0 ** (least - digits), 2.0**least, (2 - 2.0**-digits) * 2.0**top
    edges = [0.0, np.inf, smallest, 3 * smallest, normal - smallest, normal, largest, 2.0 ** (top // 2 + 1)]
    plain = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 0.001, 10.3, 88.8, 103.9]
    return np.array([np.nan, *edges, *[-value for value in edges], *plain, *[-value for value in plain]]).astype(
        dtype.numpy
    )


# Bits of the fraction, exponent of the least normal number, exponent of the largest one.
FLOATS = {
    "float16": (10, -14, 15),
    "bfloat16": (7, -126, 127),
    "float32": (23, -126, 127),
    "float64": (52, -1022, 1023),
}


def with_special_values(op: Operator, arguments: Arguments) -> Arguments | None:
    """The data at its edges: all combinations for pointwise operators, else a few elements of the first operand."""
    data = [leaf for leaf in arguments.leaves("data") if leaf.array.ndim and leaf.array.size]
    if not data or (arguments.domain and Fact.POINTWISE not in op.facts):
        return None
    if Fact.POINTWISE in op.facts:
        if len(data) != len(arguments.leaves()):
            return None
        found = _all_combinations(arguments, data)
    else:
        found = map_arrays(arguments, lambda leaf: _sprinkled(leaf.array) if leaf is data[0] else leaf.array)
    return None if refusal(found, op) is not None else found


def _all_combinations(arguments, data):
    values = special_values(from_numpy_dtype(data[0].array.dtype))
    values = values if len(data) < 3 else values[:: len(values) // 8]
    grids = np.meshgrid(*[values] * len(data), indexing="ij")
    found = {id(leaf): grid.reshape(-1) for leaf, grid in zip(data, grids, strict=True)}
    return map_arrays(arguments, lambda leaf: found.get(id(leaf), leaf.array))


def _sprinkled(array):
    dtype = from_numpy_dtype(array.dtype)
    found = array.copy().reshape(-1)
    values = special_values(dtype)
    if dtype.kind is Kind.FLOAT:
        digits, least, _ = FLOATS[dtype.name]
        values = np.array([np.nan, -0.0, np.inf, 2.0 ** (least - digits), -np.inf, 0.0]).astype(dtype.numpy)
    places = np.linspace(0, found.size - 1, min(found.size, len(values))).astype(int)
    found[places] = values[: len(places)]
    return found.reshape(array.shape)


# The choice.


@functools.cache
def cases(name: str) -> tuple[Case, ...]:
    """The cases of an operator, the plainest first."""
    samples = sample_arguments(name)
    found = [Case(name, position, base_dtype(item)) for position, item in enumerate(samples)]
    with_data = [position for position, item in enumerate(samples) if item.leaves("data")]
    if with_data:
        found += _varied(name, with_data)
    return tuple(case for case in dict.fromkeys(found) if materialise(case) is not None)


@functools.cache
def richest_of(name: str) -> int:
    """The position of the sample whose data have the most dims."""
    samples = sample_arguments(name)
    return max(range(len(samples)), key=lambda at: sum(leaf.array.ndim for leaf in samples[at].leaves("data")))


def _varied(name, positions):
    samples = sample_arguments(name)
    base = base_dtype(samples[positions[0]])
    richest = richest_of(name)
    for at, layout in enumerate(LAYOUTS):
        yield Case(name, richest, base_dtype(samples[richest]), layout, ("given", "odd")[at % 2])
    for position in positions:
        yield Case(name, position, base_dtype(samples[position]), size="odd")
    for position in dict.fromkeys((positions[0], richest)):
        for size in SIZES:
            yield Case(name, position, base_dtype(samples[position]), size=size)
    for at, dtype in enumerate(data_dtypes(name)):
        if dtype.name == base:
            continue
        allowed = [item for item in positions if refusal(converted(samples[item], dtype), OPERATORS[name]) is None]
        layout = ("contiguous", *LAYOUTS)[at % 6] if dtype.name in VARIED else "contiguous"
        allowed = allowed or positions
        yield Case(name, allowed[at % len(allowed)], dtype.name, layout)
        if dtype.name in ("float16", "bfloat16", "float64", "int64"):
            yield Case(name, allowed[-1], dtype.name, size="odd")
    whole = [at for at in positions if any(leaf.array.ndim for leaf in samples[at].leaves("data"))]
    for dtype in data_dtypes(name):
        possible = (Case(name, position, dtype.name, values="special") for position in whole)
        yield from itertools.islice((case for case in possible if materialise(case) is not None), 1)


@functools.cache
def materialise(case: Case) -> Arguments | None:
    """The arguments of a case, contiguous but for its layout; None where the case does not apply to the operator."""
    op = OPERATORS[case.op]
    arguments = sample_arguments(case.op)[case.sample]
    if case.dtype != "given":
        arguments = converted(arguments, BY_NAME[case.dtype])
    if case.size != "given":
        arguments = resized(op, arguments, case.size)
    if arguments is not None and case.values == "special":
        arguments = with_special_values(op, arguments)
    if arguments is None:
        return None
    if arguments.domain in MATRICES and case.layout in ("expanded", "overlapping"):
        return None
    arguments = in_domain_of_matrices(arguments)
    if case.layout != "contiguous" and not any(leaf.array.ndim for leaf in arguments.leaves()):
        return None
    found = map_arrays(arguments, lambda leaf: laid_out(leaf, case.layout))
    changed = case.layout != "contiguous" or case.dtype != base_dtype(sample_arguments(case.op)[case.sample])
    error = refusal(found, op) if changed else None
    # Attributes and layouts may not go together with every sample; a dtype of the family that is refused stays a case.
    return found if error is None or error.code in ("D001", "D006") else None


# Domains of matrices: by what the square arrays among the data are replaced, of which all others are perturbations.
MATRICES = {
    "hermitian": lambda x: (x + np.conj(np.swapaxes(x, -1, -2))) / 2,
    "definite": lambda x: (x @ np.conj(np.swapaxes(x, -1, -2))) / (1 + x.shape[-1]) + np.eye(x.shape[-1]),
    "dominant": lambda x: x / (1 + x.shape[-1]) + 2 * np.eye(x.shape[-1]),
    "full_rank": lambda x: (
        x / (1 + x.shape[-1]) + np.diag(np.arange(2.0, 2 + max(x.shape[-2:])))[: x.shape[-2], : x.shape[-1]]
    ),
}


def in_domain_of_matrices(arguments):
    """The arguments with their arrays in a domain of matrices, where they have one."""
    if arguments.domain not in MATRICES:
        return arguments
    return map_arrays(arguments, lambda leaf: as_matrices(leaf.array, arguments.domain))


def as_matrices(array, domain):
    """An array that is a batch of matrices, in a domain of matrices; any other as it is."""
    square = array.ndim >= 2 and (array.shape[-1] == array.shape[-2] or domain == "full_rank")
    if not square or array.dtype.kind in "biu":
        return array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return MATRICES[domain](wide).astype(array.dtype)


def direction_in(domain, direction):
    """A direction in which matrices stay in their domain."""
    square = direction.ndim >= 2 and direction.shape[-1] == direction.shape[-2]
    return MATRICES["hermitian"](direction) if square and domain in ("hermitian", "definite") else direction


def in_domain(arguments: Arguments, values: Any) -> Any:
    """Values mapped into the domain of a sample."""
    return values if arguments.domain is None else DOMAINS[arguments.domain](values)
