"""Data-flow facts about a kernel's terms: the axes each depends on, and the written buffers it reads.

Input: a `Kernel`. Output: an `Analysis`, gathered in one pass before any text is emitted, since hoisting asks these
questions for every term. Sets of axes and of buffers are bit masks: a question is one `&`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rushlight.ir.kernel import Axis, Kernel, Loop, Multiply, Statement, Store
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes
from rushlight.sym import Size, SizeExpr, axis_size, free_symbols, parts
from rushlight.term import postorder

RISKY_LOAD = 1
"""In `touched`: a load whose address may be invalid if the loop around it runs no iteration."""
ANY_LOAD = 2
"""In `touched`: a load."""
_FIRST_BUFFER = 4

INDEX, LOAD, CONSTANT, FMA, GUARD, SELECT, KEEP, AND = (
    OPS[name] for name in ("index", "load", "constant", "fma", "guard", "select", "keep", "and")
)


class Analysis:
    """The axes, loads and reductions that each term of a kernel depends on.

    `free[term]`: the axes, as bits. `touched[term]`: `RISKY_LOAD`, `ANY_LOAD` and the bits of the written buffers that
    the term reads. `below[term]`: the reductions in the term, itself included, as bits by their index in `reductions`.
    `spills[buffer]`: the terms that are stored to the buffer while a row is reduced and read again later (op `keep`).
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
        self.spills: dict[Buffer, list[Scalar]] = {}
        for term in [term for term in terms if term.op is KEEP]:
            self.spills.setdefault(term.attr("buffer"), []).append(term)

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
            elif isinstance(statement, Multiply):
                self.buffer_bits.setdefault(statement.result, _FIRST_BUFFER << len(self.buffer_bits))

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
        axes = self._size_free.get(size)
        if axes is None:
            axes = 0
            for symbol in free_symbols(size):
                axes |= self.axis_bits.get(symbol, 0)
            self._size_free[size] = axes
        return axes

    def atoms_axes(self, atoms: Iterable[SizeExpr]) -> int:
        """The axes that a product of atoms depends on."""
        axes = 0
        for atom in atoms:
            axes |= self.size_axes(atom)
        return axes

    def stored_in(self, statements: Iterable[Statement]) -> int:
        """The bits of the buffers that are stored to."""
        buffers = 0
        for statement in statements:
            if isinstance(statement, Store):
                buffers |= self.buffer_bits[statement.buffer]
            elif isinstance(statement, Multiply):
                buffers |= self.buffer_bits[statement.result]
            elif isinstance(statement, Loop):
                buffers |= self.stored_in(statement.body)
        return buffers


def has_compound_atoms(size: Size) -> bool:
    """Whether a size has quotients, minima or maxima."""
    if isinstance(size, int):
        return False
    return any(atom.op.name != "symbol" for _, atoms in parts(size) for atom in atoms)


def store_scalars(store: Store) -> tuple[Scalar, ...]:
    """The scalars of a store: its value, its offset if data-dependent, its mask."""
    offset = (store.offset,) if isinstance(store.offset, Scalar) else ()
    return (store.value, *offset) if store.where is None else (store.value, *offset, store.where)


def axis_scalars(axis: Axis) -> tuple[Scalar, ...]:
    """The scalars that give a loop's bounds."""
    return tuple([bound for bound in (axis.extent, axis.start) if isinstance(bound, Scalar)])


def is_risky(offset: tuple[Scalar, ...]) -> bool:
    """Whether a load's offset may be invalid if no iteration runs.

    That is so if the offset depends on data or subtracts.
    """
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
    """The terms that are evaluated for any data; terms that only a guard's first value uses are left out."""
    return list(
        postorder(roots, lambda term: (term.operands[0], term.operands[2]) if term.op is GUARD else term.operands)
    )
