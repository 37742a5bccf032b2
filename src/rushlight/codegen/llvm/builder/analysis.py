"""Facts about a kernel's terms, gathered once: which axes and which written buffers each depends on.

Sets of axes and of buffers are bit masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rushlight.ir.kernel import Axis, Kernel, Loop, Statement, Store
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes
from rushlight.sym import Size, SizeExpr, axis_size, free_symbols, parts
from rushlight.term import postorder

RISKY_LOAD = 1
"""In `touched`: a load whose address need not be valid while a loop that it was hoisted from is empty."""
ANY_LOAD = 2
"""In `touched`: a load."""
_FIRST_BUFFER = 4

INDEX, LOAD, CONSTANT, GUARD, KEEP, AND = (OPS[name] for name in ("index", "load", "constant", "guard", "keep", "and"))


class Analysis:
    """`free[term]`: the axes that a term depends on. `touched[term]`: `RISKY_LOAD`, `ANY_LOAD`, written buffers read.

    `below[term]`: the reductions in a term, itself included, as bits by their places in `reductions`. `kept`: for
    buffers in which rows wait, the terms that are kept there.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.axis_bits: dict[SizeExpr, int] = {}
        self.buffer_bits: dict[Buffer, int] = {}
        self.free: dict[Scalar, int] = {}
        self.touched: dict[Scalar, int] = {}
        self.below: dict[Scalar, int] = {}
        self.has_guards = self.has_quotients = False
        self._size_free: dict[SizeExpr, int] = {}
        self.roots: list[Scalar] = []
        self._find_loops(kernel.body)
        terms = list(postorder(self.roots))
        for term in terms:
            for axis in bound_axes(term):
                self.axis_bits.setdefault(axis, 1 << len(self.axis_bits))
        self.reductions = self._visit_all(terms)
        self.kept: dict[Buffer, list[Scalar]] = {}
        for term in [term for term in terms if term.op is KEEP]:
            self.kept.setdefault(term.attr("buffer"), []).append(term)

    def _find_loops(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                axis = statement.axis
                self.axis_bits.setdefault(axis.symbol, 1 << len(self.axis_bits))
                self.roots.extend(axis_scalars(axis))
                self._find_loops(statement.body)
            elif isinstance(statement, Store):
                self.buffer_bits.setdefault(statement.buffer, _FIRST_BUFFER << len(self.buffer_bits))
                self.roots.extend(store_scalars(statement))
                if not isinstance(statement.offset, Scalar):
                    self.has_quotients = self.has_quotients or has_compound_atoms(statement.offset)

    def _visit_all(self, terms: list[Scalar]) -> list[Scalar]:
        reductions: list[Scalar] = []
        free, touched, below = self.free, self.touched, self.below
        for term in terms:
            axes = touches = inside = 0
            for operand in term.operands:
                axes |= free[operand]
                touches |= touched[operand]
                inside |= below[operand]
            op = term.op
            if op is INDEX:
                axes = self.size_axes(term.attr("expr"))
                self.has_quotients = self.has_quotients or has_compound_atoms(term.attr("expr"))
            elif op is GUARD:
                self.has_guards = True
            elif op is LOAD:
                touches |= ANY_LOAD | self.buffer_bits.get(term.attr("buffer"), 0)
                if is_risky(term.operands):
                    touches |= RISKY_LOAD
            elif bound := bound_axes(term):
                inside |= 1 << len(reductions)
                reductions.append(term)
                own = 0
                for axis in bound:
                    own |= self.axis_bits[axis]
                axes &= ~own
                for axis in bound:
                    axes |= self.size_axes(axis_size(axis)) & ~own
                touches &= ~RISKY_LOAD
            free[term] = axes
            touched[term] = touches
            below[term] = inside
        return reductions

    def size_axes(self, size: Size) -> int:
        """The axes that a size depends on."""
        if isinstance(size, int):
            return 0
        found = self._size_free.get(size)
        if found is None:
            found = 0
            for symbol in free_symbols(size):
                found |= self.axis_bits.get(symbol, 0)
            self._size_free[size] = found
        return found

    def atoms_axes(self, atoms: Iterable[SizeExpr]) -> int:
        """The axes that a product of atoms depends on."""
        found = 0
        for atom in atoms:
            found |= self.size_axes(atom)
        return found

    def stored_in(self, statements: Iterable[Statement]) -> int:
        """The bits of the buffers that are stored to."""
        found = 0
        for statement in statements:
            if isinstance(statement, Store):
                found |= self.buffer_bits[statement.buffer]
            elif isinstance(statement, Loop):
                found |= self.stored_in(statement.body)
        return found


def has_compound_atoms(size: Size) -> bool:
    """Whether a size has quotients, minima or maxima."""
    if isinstance(size, int):
        return False
    return any(atom.op.name != "symbol" for _, atoms in parts(size) for atom in atoms)


def store_scalars(store: Store) -> tuple[Scalar, ...]:
    """The scalars of a store: its value, a data-dependent offset, its mask."""
    offset = (store.offset,) if isinstance(store.offset, Scalar) else ()
    return (store.value, *offset) if store.where is None else (store.value, *offset, store.where)


def axis_scalars(axis: Axis) -> tuple[Scalar, ...]:
    """The scalars that give a loop's bounds."""
    return tuple([bound for bound in (axis.extent, axis.start) if isinstance(bound, Scalar)])


def is_risky(offset: tuple[Scalar, ...]) -> bool:
    """Whether a load's offset is data-dependent or subtracts, so that it may be invalid where no iteration is run."""
    for term in offset:
        if term.op is not INDEX:
            return term.op is not CONSTANT
        if any(coefficient < 0 for coefficient, _ in parts(term.attr("expr"))):
            return True
    return False


def statement_scalars(statements: Iterable[Statement]) -> Iterator[Scalar]:
    """All scalars of statements, loops included."""
    for statement in statements:
        if isinstance(statement, Store):
            yield from store_scalars(statement)
        elif isinstance(statement, Loop):
            yield from axis_scalars(statement.axis)
            yield from statement_scalars(statement.body)


def unguarded(roots: Iterable[Scalar]) -> list[Scalar]:
    """The terms that are evaluated whatever the data: not those that only a guard's first value needs."""
    return list(
        postorder(roots, lambda term: (term.operands[0], term.operands[2]) if term.op is GUARD else term.operands)
    )
