"""The scalar language: what a kernel computes for one index.

A Scalar is an interned term whose type is a DType. Lowering rules build them with Python operators; reductions are
terms with bound axes, so a whole kernel body is one pure expression, and a code generator places each part in the
outermost loop where the axes it depends on are bound. All operands of an arithmetic op have one dtype; conversions
are explicit (`cast`), `fma` is written where it is meant and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from typing import cast as typing_cast

import numpy as np

from rushlight.ir.dtype import (
    BY_NAME,
    FLOAT8,
    DType,
    Kind,
    bool_,
    complex64,
    complex128,
    compute_dtype,
    float32,
    float64,
    int64,
    integer_limits,
    real_dtype,
    rounded_array,
    uint8,
    uint32,
    uint64,
)
from rushlight.ir.type import TensorType
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr
from rushlight.term import Op, Term, interned


class ScalarOp(Op):
    """An op of the scalar language: its arity and its result type as a function of the operands' types."""

    __slots__ = ("arity", "result")

    def __init__(self, name: str, arity: int | None, result: Callable[..., DType]) -> None:
        super().__init__(name)
        self.arity = arity
        self.result = result


@frozen
class Order:
    """How a reduction associates; a pure function of operator, dtype, logical sizes and kind of device.

    The reduced axes are flattened row-major to k = 0, 1, .... Block q holds k in [q*block, (q+1)*block); it consists of
    runs of lanes*chain elements. Within a run lane l starts from the identity and folds every k whose place in the run
    is l modulo lanes, in ascending order: at most `chain` of them. Then lane l takes lane l + lanes/2, halving until
    one is left. The first run's result starts the block's, the first block's result starts the total; later ones are
    added on the right. Orders of several lanes have one run in a block.

    Where the result's type is wider than the elements', blocks are added in the result's type, and so are the last
    `WIDE_LANES` lanes of a block.
    """

    block: int
    lanes: int
    chain: int


WIDE_LANES = 8
# Contractions: one chain of 256, so that any split at block edges and any cache blocking keeps the bits.
BLOCKED = Order(256, 1, 256)
# Column-like sums: chains so short that their rounding errors are about those of a tree.
COLUMNS = Order(256, 1, 32)
# Sums along the innermost logical dim: 64 lanes fill four AVX-512 registers.
LANES = Order(4096, 64, 64)
# Prefix sums: a plain chain.
SEQUENTIAL = Order(1 << 62, 1, 1 << 62)


@frozen(eq=False)
class Buffer:
    """Memory that scalars are loaded from; compared by identity. `type` gives shape, dtype and strides.

    scope: "global" (a descriptor's storage), "arena" (scratch of one call), "local" (a share's own, such as a tile),
    "shared" (a block's own), "register" (a thread's own). `constant`: each call finds the same elements there, those of
    a frozen input or of values that are made of frozen inputs alone.
    """

    name: str
    type: TensorType
    scope: str = "global"
    constant: bool = False

    def __repr__(self) -> str:
        return f"@{self.name}"


class Scalar(Term):
    """A term of the scalar language; `type` is its DType.

    Python operators build terms; numbers take the other's dtype.
    """

    __slots__ = ()

    type: DType
    operands: tuple[Scalar, ...]

    def __add__(self, other: Scalar | float) -> Scalar:
        return apply("add", self, lift(other, self.type))

    def __radd__(self, other: float) -> Scalar:
        return apply("add", lift(other, self.type), self)

    def __sub__(self, other: Scalar | float) -> Scalar:
        return apply("sub", self, lift(other, self.type))

    def __rsub__(self, other: float) -> Scalar:
        return apply("sub", lift(other, self.type), self)

    def __mul__(self, other: Scalar | float) -> Scalar:
        return apply("mul", self, lift(other, self.type))

    def __rmul__(self, other: float) -> Scalar:
        return apply("mul", lift(other, self.type), self)

    def __truediv__(self, other: Scalar | float) -> Scalar:
        return apply("div", self, lift(other, self.type))

    def __rtruediv__(self, other: float) -> Scalar:
        return apply("div", lift(other, self.type), self)

    def __neg__(self) -> Scalar:
        return apply("neg", self)

    def __and__(self, other: Scalar | int) -> Scalar:
        return apply("and", self, lift(other, self.type))

    def __or__(self, other: Scalar | int) -> Scalar:
        return apply("or", self, lift(other, self.type))

    def __xor__(self, other: Scalar | int) -> Scalar:
        return apply("xor", self, lift(other, self.type))

    def __invert__(self) -> Scalar:
        return apply("not", self)

    def __lshift__(self, other: Scalar | int) -> Scalar:
        return apply("shl", self, lift(other, self.type))

    def __rshift__(self, other: Scalar | int) -> Scalar:
        return apply("shr", self, lift(other, self.type))

    def __lt__(self, other: Scalar | float) -> Scalar:
        return apply("lt", self, lift(other, self.type))

    def __le__(self, other: Scalar | float) -> Scalar:
        return apply("le", self, lift(other, self.type))

    def __gt__(self, other: Scalar | float) -> Scalar:
        return apply("lt", lift(other, self.type), self)

    def __ge__(self, other: Scalar | float) -> Scalar:
        return apply("le", lift(other, self.type), self)

    def equals(self, other: Scalar | float) -> Scalar:
        """Elementwise equality, a bool scalar; `==` stays identity, since terms are dict keys."""
        return apply("eq", self, lift(other, self.type))

    def differs(self, other: Scalar | float) -> Scalar:
        """Elementwise inequality; true for NaN against itself."""
        return apply("ne", self, lift(other, self.type))

    def __bool__(self) -> bool:
        raise TypeError("a scalar term has no truth value: use select()")


def _same(*types: DType) -> DType:
    return types[0]


def _sum_of_products(*types: DType) -> DType:
    return compute_dtype(types[0])


def _compare(*types: DType) -> DType:
    return bool_


def _select(condition: DType, a: DType, b: DType) -> DType:
    return a


def _whole(real: DType, imag: DType) -> DType:
    return complex64 if real is float32 else complex128


_UNARY = ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round_even", "not")
_BINARY = (
    "add",
    "sub",
    "mul",
    "div",
    "floordiv",
    "remainder",
    "minimum",
    "maximum",
    "and",
    "or",
    "xor",
    "shl",
    "shr",
    "mulhi",
    "scale",
)
_COMPARISONS = ("lt", "le", "eq", "ne")

# The whole language. Integers: add, sub, mul, neg wrap; `floordiv`, `remainder` follow Python's signs (the divisor's)
# and are 0 for a zero divisor; `shr` is arithmetic for signed types; shifts by the width or more give 0 (or the sign).
# `mulhi` is the high half of an unsigned product. Floats: `minimum`, `maximum` propagate NaN and order -0.0 before
# +0.0; float `remainder` has the divisor's sign; `scale(x, n)` is x * 2^n, rounded once, for an integral n and an x in
# size from 1/4 to 4, or one that is 0, infinite or NaN. Complex numbers have add, sub, mul, div, neg, eq, ne, casts,
# sums and contractions; `complex(re, im)` is made of parts, `real` and `imag` take one. `fma` is one rounding. `cast`
# truncates floats to integers and saturates (NaN gives 0); to bool it is `!= 0`. `bitcast` keeps bits. `guard(c, a, b)`
# is a select whose `a` is evaluated, loads included, only where `c` holds.
OPS: dict[str, ScalarOp] = {
    **{name: ScalarOp(name, 1, _same) for name in _UNARY},
    **{name: ScalarOp(name, 2, _same) for name in _BINARY},
    **{name: ScalarOp(name, 2, _compare) for name in _COMPARISONS},
    "complex": ScalarOp("complex", 2, _whole),
    "real": ScalarOp("real", 1, real_dtype),
    "imag": ScalarOp("imag", 1, real_dtype),
    "fma": ScalarOp("fma", 3, _same),
    "select": ScalarOp("select", 3, _select),
    "guard": ScalarOp("guard", 3, _select),
    "cast": ScalarOp("cast", 1, _same),
    "bitcast": ScalarOp("bitcast", 1, _same),
    "constant": ScalarOp("constant", 0, _same),
    "index": ScalarOp("index", 0, _same),
    "load": ScalarOp("load", None, _same),
    "keep": ScalarOp("keep", 2, _same),
    "reduce": ScalarOp("reduce", 1, _same),
    "contract": ScalarOp("contract", 2, _sum_of_products),
}
# `sum` starts from +0.0, `signed_sum` from -0.0: a sum of one element has its bits, the sign of a zero included.
SUMS = ("sum", "signed_sum")
REDUCTIONS = (*SUMS, "prod", "max", "min", "any", "all")


def identity(kind: str, dtype: DType) -> float:
    """The number that a reduction of no elements gives, and that changes the result of none."""
    if kind in ("max", "min"):
        if dtype.kind is Kind.FLOAT:
            return -math.inf if kind == "max" else math.inf
        least, greatest = (False, True) if dtype.kind is Kind.BOOL else integer_limits(dtype)
        return least if kind == "max" else greatest
    if kind in ("any", "all"):
        return kind == "all"
    if kind == "prod":
        return 1
    return -0.0 if kind == "signed_sum" and dtype.kind >= Kind.FLOAT else 0


def _term(name: str, operands: tuple[Scalar, ...], attrs: tuple[tuple[str, object], ...], dtype: DType) -> Scalar:
    return interned(Scalar, OPS[name], operands, attrs, dtype)


def apply(name: str, *operands: Scalar) -> Scalar:
    """The term of an arithmetic op, a comparison, fma, select or guard. Operands' dtypes must agree."""
    op = OPS[name]
    values = operands[1:] if name in ("select", "guard") else operands
    assert len(operands) == op.arity, f"{name} takes {op.arity} operands"
    assert all(value.type is values[0].type for value in values), f"{name}: {[value.type.name for value in operands]}"
    if all(operand.op is OPS["index"] for operand in operands) and name in _INDEX_ARITHMETIC:
        return index(_INDEX_ARITHMETIC[name](*(operand.attr("expr") for operand in operands)))
    return _term(name, operands, (), op.result(*(operand.type for operand in operands)))


_INDEX_ARITHMETIC: dict[str, Callable[..., Size]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
}


def lift(value: Scalar | float | complex | SizeExpr, dtype: DType) -> Scalar:
    """A Python number or a size as a scalar of `dtype`; scalars pass."""
    if isinstance(value, Scalar):
        return value
    if isinstance(value, SizeExpr):
        return cast(index(value), dtype)
    return constant(value, dtype)


def constant(value: Any, dtype: DType) -> Scalar:
    """A constant, keyed by dtype and bit pattern: 0.0 and -0.0 are two, all equal NaN bits are one."""
    if dtype.kind is Kind.BOOL:
        value = bool(value)
    elif dtype.kind is Kind.INT:
        wrapped = int(value) & ((1 << dtype.bits) - 1)
        value = wrapped - (1 << dtype.bits) if dtype.signed and wrapped >> (dtype.bits - 1) else wrapped
    elif dtype.kind is Kind.COMPLEX:
        value = complex(value)
    elif dtype in FLOAT8:
        with np.errstate(all="ignore"):
            code = rounded_array(np.array(value, np.float64), dtype).view(np.uint8).item()
        return bitcast(constant(code, uint8), dtype)
    else:
        # Rounded once to the dtype, so that equal bits are one term.
        with np.errstate(over="ignore"):
            value = float(rounded_array(np.array(value, np.float64), dtype).astype(np.float64))
    return _term("constant", (), (("value", value),), dtype)


def index(expr: Size) -> Scalar:
    """A size expression (loop axes included) as an int64 scalar."""
    if isinstance(expr, int):
        return constant(expr, int64)
    return _term("index", (), (("expr", expr),), int64)


def load(buffer: Buffer, *indices: Scalar | Size) -> Scalar:
    """An element of a buffer: one index per dim, or a single linear element offset in scheduled kernels."""
    operands = tuple(position if isinstance(position, Scalar) else index(position) for position in indices)
    return _term("load", operands, (("buffer", buffer),), buffer.type.dtype)


def cast(value: Scalar, dtype: DType) -> Scalar:
    """Converts; a cast to the same dtype is the value, casts never cancel otherwise."""
    if value.type is dtype:
        return value
    if value.type in FLOAT8:
        return cast(_widened(value), dtype)
    if dtype in FLOAT8:
        if value.type.is_complex:
            value = apply("real", value)
        wide = value.type is float32 or value.type is float64
        return _narrowed(value if wide else cast(value, float32), dtype)
    if value.op is OPS["constant"] and not (value.type.kind is Kind.FLOAT and dtype.kind is not Kind.FLOAT):
        return constant(value.attr("value"), dtype)
    return _term("cast", (value,), (), dtype)


def _widened(value: Scalar) -> Scalar:
    """An 8-bit float as float32: its bits as a float32 of the wrong bias, which a power of two sets right."""
    form = FLOAT8[value.type]
    bits = cast(bitcast(value, uint8), uint32)
    size = bits & 0x7F
    number = bitcast(size << (23 - form.fraction), float32) * 2.0 ** (127 - form.bias)
    if form.largest < form.overflow < form.nan:
        number = select(size.equals(form.overflow), constant(math.inf, float32), number)
    number = bitcast(bitcast(number, uint32) | ((bits & 0x80) << 24), float32)
    is_nan_code = bits.equals(form.nan) if form.unsigned_zero else form.overflow < size
    return select(is_nan_code, constant(math.nan, float32), number)


def _narrowed(value: Scalar, dtype: DType) -> Scalar:
    """A float32 or float64 as an 8-bit float: to nearest even by integers, and below the normal numbers by a sum."""
    form = FLOAT8[dtype]
    whole, fraction, bias = (uint32, 23, 127) if value.type is float32 else (uint64, 52, 1023)
    bits = bitcast(value, whole)
    size = bits & ((1 << (whole.bits - 1)) - 1)
    shift = fraction - form.fraction
    last = (size >> shift) & 1
    normal = ((size + last + ((1 << (shift - 1)) - 1)) >> shift) - ((bias - form.bias) << form.fraction)
    # The last place of this number is the smallest one that the dtype has.
    magic = constant(2.0 ** (1 - form.bias - form.fraction + fraction), value.type)
    low = bitcast(bitcast(size, value.type) + magic, whole) - bitcast(magic, whole)
    code = select(bitcast(size, value.type) < 2.0 ** (1 - form.bias), low, normal)
    code = select(constant(form.largest, whole) < code, constant(form.overflow, whole), code)
    code = select(is_nan(value), constant(form.nan, whole), code)
    sign = (bits >> (whole.bits - 8)) & 0x80
    if form.unsigned_zero:
        sign = select(code.equals(0) | code.equals(form.nan), constant(0, whole), sign)
    return bitcast(cast(code | sign, uint8), dtype)


def bitcast(value: Scalar, dtype: DType) -> Scalar:
    """The same bits as another dtype of the same width."""
    assert value.type.bits == dtype.bits, f"bitcast from {value.type.name} to {dtype.name}"
    return value if value.type is dtype else _term("bitcast", (value,), (), dtype)


def select(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """`a` where `condition`, else `b`; both are evaluated."""
    return a if a is b else apply("select", condition, a, b)


def keep(value: Scalar, buffer: Buffer, offset: Scalar) -> Scalar:
    """A value that is also stored to a buffer at a linear offset, for a kernel that reads it later."""
    return _term("keep", (value, offset), (("buffer", buffer),), value.type)


def guard(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """`a` where `condition`, else `b`; the loads in `a` happen only where `condition` holds."""
    return apply("guard", condition, a, b)


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """a*b + c with one rounding."""
    return apply("fma", a, b, c)


def reduce(kind: str, axes: tuple[SizeExpr, ...], body: Scalar, order: Order, total: DType | None = None) -> Scalar:
    """Reduces `body` over `axes` (from `sym.axis_symbol`), flattened row-major, in the given order.

    `total` is a wider type for a sum, in which its blocks are added.
    """
    assert kind in REDUCTIONS, kind
    assert total is None or kind in SUMS, kind
    return _term("reduce", (body,), (("kind", kind), ("axes", tuple(axes)), ("order", order)), total or body.type)


def contract(axes: tuple[SizeExpr, ...], a: Scalar, b: Scalar, order: Order, total: DType | None = None) -> Scalar:
    """Sum of a*b over `axes`, by chains of fma for floats: acc = fma(a, b, acc).

    16-bit floats are summed in float32: exactly widened, or as the machine's own instruction for pairs of them does.
    `total` is a wider type for the sum of integers.
    """
    assert a.type is b.type, f"contract: {a.type.name} and {b.type.name}"
    return _term("contract", (a, b), (("axes", tuple(axes)), ("order", order)), total or compute_dtype(a.type))


def is_nan(value: Scalar) -> Scalar:
    """Whether a float is NaN."""
    return value.differs(value)


_BINDERS = (OPS["reduce"], OPS["contract"])


def bound_axes(term: Scalar) -> tuple[SizeExpr, ...]:
    """The axes that a reduction binds; none for other terms."""
    return typing_cast(tuple[SizeExpr, ...], term.attr("axes")) if term.op in _BINDERS else ()


def chain_axis(term: Scalar) -> SizeExpr | None:
    """The axis of a reduction that is one sequential chain, or None.

    Such a reduction can continue from the result of a shorter one.
    """
    axes = bound_axes(term)
    is_chain = len(axes) == 1 and term.op is OPS["reduce"] and term.attr("order") == SEQUENTIAL
    return axes[0] if is_chain else None


def dtype_named(name: str) -> DType:
    """The dtype of a printed name."""
    return BY_NAME[name]
