"""Rewrites complex kernels on real parts: a complex element is two real ones, at twice its offset.

This is the last rewrite of a kernel, so fusion, layouts and loops handle complex values as any other, and code
generators need no complex dtype. Formulas are numpy's: products are not fused, quotients are Smith's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeAlias

from rushlight.ir.dtype import DType, Kind, real_dtype
from rushlight.ir.kernel import GemmKernel, Kernel, Loop, Statement, Store
from rushlight.ir.scalar import OPS, SUMS, Buffer, Scalar, apply, cast, constant, contract, fma, index, load, select
from rushlight.ir.type import TensorType
from rushlight.schedule.lower.rewrite import as_size, rebuild
from rushlight.support.errors import fail
from rushlight.sym import Size
from rushlight.term import interned, postorder

Parts: TypeAlias = tuple[Scalar, Scalar]
_CONDITIONAL = (OPS["select"], OPS["guard"])


def split_complex(kernel: Kernel | GemmKernel) -> Kernel | GemmKernel:
    """The kernel on real parts; the same kernel if nothing in it is complex. The arguments do not change.

    Errors: D006 for scalars without a form in real parts, such as products over an axis.
    """
    if isinstance(kernel, GemmKernel):
        parts = [inner and _split_loops(inner) for inner in (kernel.epilogue, kernel.prologue)]
        return replace(kernel, epilogue=parts[0], prologue=parts[1])
    return _split_loops(kernel)


def _split_loops(kernel: Kernel) -> Kernel:
    scalars = [part for store in kernel.stores() for part in (store.value, store.where) if part is not None]
    if not any(term.type.kind is Kind.COMPLEX for term in postorder(scalars)):
        return kernel
    splitter = _Splitter()
    buffers = tuple([splitter.buffer(buffer) for buffer in kernel.buffers])
    return replace(kernel, buffers=buffers, body=splitter.statements(kernel.body))


def _in_parts(buffer: Buffer) -> Buffer:
    """The same memory as real numbers, with one more dim for the two parts."""
    type_ = buffer.type
    strides = (*[stride * 2 for stride in type_.strides], 1)
    return Buffer(
        buffer.name, TensorType((*type_.shape, 2), real_dtype(type_.dtype), type_.device, strides), buffer.scope
    )


class _Splitter:
    """Rewrites scalars; `parts` of complex ones, `image` of the others."""

    def __init__(self) -> None:
        self.buffers: dict[Buffer, Buffer] = {}
        self.parts: dict[Scalar, Parts] = {}
        self.image: dict[Scalar, Scalar] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """A buffer as kernels see it: an argument, or a share's own memory."""
        if not buffer.type.dtype.is_complex:
            return buffer
        return self.buffers.setdefault(buffer, _in_parts(buffer))

    def statements(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The statements on parts: two stores for each complex one."""
        statements: list[Statement] = []
        for statement in body:
            if isinstance(statement, Loop):
                statements.append(replace(statement, body=self.statements(statement.body)))
            elif isinstance(statement, Store):
                statements.extend(self.store(statement))
            else:
                statements.append(statement)
        return tuple(statements)

    def store(self, store: Store) -> list[Store]:
        """A store, as one or two."""
        offset, where = self.offset(store.offset), None if store.where is None else self.real(store.where)
        if not store.value.type.is_complex:
            return [replace(store, offset=offset, value=self.real(store.value), where=where)]
        if store.combine not in (None, *SUMS):
            _refuse(f"a scatter with {store.combine}")
        buffer = self.buffer(store.buffer)
        values = self.both(store.value)
        offsets = _places(offset)
        return [Store(buffer, at, value, store.combine, where) for at, value in zip(offsets, values, strict=True)]

    def offset(self, offset: Scalar | Size) -> Scalar:
        """An offset as a scalar."""
        return self.real(offset) if isinstance(offset, Scalar) else index(offset)

    def real(self, term: Scalar) -> Scalar:
        """The image of a real term."""
        self.visit(term)
        return self.image[term]

    def both(self, term: Scalar) -> Parts:
        """The parts of a complex term."""
        self.visit(term)
        return self.parts[term]

    def visit(self, root: Scalar) -> None:
        """Rewrites a term after its operands."""
        for term in postorder([root]):
            if term in self.parts or term in self.image:
                continue
            if term.type.is_complex:
                self.parts[term] = self.complex_term(term)
            else:
                self.image[term] = self.real_term(term)

    def real_term(self, term: Scalar) -> Scalar:
        """A term with a real result, of operands that may be complex."""
        if not any(operand.type.is_complex for operand in term.operands):
            operands = tuple([self.image[operand] for operand in term.operands])
            return term if operands == term.operands else rebuild(term, operands)
        rule = _TO_REAL.get(term.op.name)
        if rule is None:
            _refuse(term.op.name)
        return rule(term.type, *[self.parts[operand] for operand in term.operands])

    def complex_term(self, term: Scalar) -> Parts:
        """A term with a complex result."""
        name, real = term.op.name, real_dtype(term.type)
        if name == "load":
            buffer = self.buffer(term.attr("buffer"))
            first, second = (load(buffer, at) for at in _places(self.image[term.operands[0]]))
            return first, second
        if name == "constant":
            value = complex(term.attr("value"))
            return constant(value.real, real), constant(value.imag, real)
        if name == "complex":
            return self.image[term.operands[0]], self.image[term.operands[1]]
        if name == "cast" and not term.operands[0].type.is_complex:
            return cast(self.image[term.operands[0]], real), constant(0.0, real)
        if term.op in _CONDITIONAL:
            condition = self.image[term.operands[0]]
            pairs = zip(self.parts[term.operands[1]], self.parts[term.operands[2]], strict=True)
            first, second = (apply(name, condition, a, b) for a, b in pairs)
            return first, second
        operands = [self.parts[operand] for operand in term.operands]
        if name == "reduce" and term.attr("kind") in SUMS:
            first, second = (interned(Scalar, term.op, (part,), term.attrs, real) for part in operands[0])
            return first, second
        if name == "contract":
            return _contract(term, *operands)
        rule = _TO_COMPLEX.get(name)
        if rule is None:
            _refuse(f"reduce {term.attr('kind')}" if name == "reduce" else name)
        return rule(real, *operands)


def _places(offset: Scalar) -> Parts:
    """The offsets of the parts of an element; still sizes where the offset is one."""
    size = as_size(offset)
    return (offset * 2, offset * 2 + 1) if size is None else (index(size * 2), index(size * 2 + 1))


def _refuse(message: str) -> NoReturn:
    fail("D006", f"{message} is not supported for complex numbers")


def _contract(term: Scalar, a: Parts, b: Parts) -> Parts:
    def dot(x: Scalar, y: Scalar) -> Scalar:
        return contract(term.attr("axes"), x, y, term.attr("order"))

    return dot(a[0], b[0]) - dot(a[1], b[1]), dot(a[0], b[1]) + dot(a[1], b[0])


def _multiply(real: DType, a: Parts, b: Parts) -> Parts:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _multiply_add(real: DType, a: Parts, b: Parts, c: Parts) -> Parts:
    return fma(a[0], b[0], fma(-a[1], b[1], c[0])), fma(a[0], b[1], fma(a[1], b[0], c[1]))


def _divide(real: DType, a: Parts, b: Parts) -> Parts:
    """R. L. Smith, "Algorithm 116: Complex division" (1962): scaled by the larger part of the divisor."""
    zero = constant(0.0, real)
    sizes = [apply("abs", part) for part in b]
    wide = apply("le", sizes[1], sizes[0])
    larger, smaller = select(wide, b[0], b[1]), select(wide, b[1], b[0])
    nothing = sizes[0].equals(zero) & sizes[1].equals(zero)
    ratio = smaller / larger
    scale = 1.0 / (larger + smaller * ratio)
    first = select(wide, a[0] + a[1] * ratio, a[0] * ratio + a[1]) * scale
    second = select(wide, a[1] - a[0] * ratio, a[1] * ratio - a[0]) * scale
    return select(nothing, a[0] / sizes[0], first), select(nothing, a[1] / sizes[0], second)


_TO_COMPLEX: dict[str, Callable[..., Parts]] = {
    "add": lambda real, a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda real, a, b: (a[0] - b[0], a[1] - b[1]),
    "neg": lambda real, a: (-a[0], -a[1]),
    "mul": _multiply,
    "div": _divide,
    "fma": _multiply_add,
    "cast": lambda real, a: (cast(a[0], real), cast(a[1], real)),
}

_TO_REAL: dict[str, Callable[..., Scalar]] = {
    "real": lambda dtype, a: a[0],
    "imag": lambda dtype, a: a[1],
    "eq": lambda dtype, a, b: a[0].equals(b[0]) & a[1].equals(b[1]),
    "ne": lambda dtype, a, b: a[0].differs(b[0]) | a[1].differs(b[1]),
    "cast": lambda dtype, a: cast(a[0], dtype) | cast(a[1], dtype) if dtype.kind is Kind.BOOL else cast(a[0], dtype),
}
