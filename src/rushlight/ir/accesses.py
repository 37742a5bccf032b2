"""Which memory kernels read and write, and at which offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rushlight.ir.coverage import Piece, Walk, axes_in
from rushlight.ir.dtype import int64
from rushlight.ir.kernel import TASK_ARGS, GemmKernel, Kernel, Loop, Statement, Store
from rushlight.ir.plan import Address, Launch
from rushlight.ir.scalar import OPS, Buffer, Scalar
from rushlight.sym import Size, SizeExpr, axis_symbol, coefficient, floordiv, substitute
from rushlight.term import postorder

DATA = "where it writes depends on data"
_LOAD, _KEEP, _INDEX = OPS["load"], OPS["keep"], OPS["index"]


class KernelAccesses:
    """The reads and writes of a loop nest.

    `stores` has for each store, in order, its buffer, its offset and the loops around it, or why it is not known which
    elements it writes. `reads` are the buffers that are loaded or added to, `written` those that are stored to.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._walks = list(_walks(kernel.body, ()))
        self.stores: list[tuple[Buffer, Size | str, tuple[Walk, ...]]] = []
        self.reads: dict[Buffer, None] = {}
        roots: list[Scalar] = []
        for store, walks in self._walks:
            offset = _as_size(store.offset)
            if offset is None or walks is None or store.where is not None:
                self.stores.append((store.buffer, DATA, ()))
            elif store.combine is None:
                self.stores.append((store.buffer, offset, walks))
            if store.combine is not None:
                self.reads[store.buffer] = None
            roots += store.roots
        self.reads.update([(term.attr("buffer"), None) for term in postorder(roots) if term.op is _LOAD])
        self.written = dict.fromkeys([buffer for buffer, _, _ in self.stores])

    def read_pieces(self, buffer: Buffer) -> list[Piece] | None:
        """The elements of a buffer that are read; None where that depends on data."""
        pieces: list[Piece] = []
        for _, offset in self._loads(buffer):
            if offset is None:
                return None
            pieces.append(Piece.of(offset, axes_in(offset)))
        return pieces

    def writes_before_reads(self, buffer: Buffer) -> bool:
        """Whether all elements of a buffer that are read were stored by the same kernel just before."""
        return buffer in self.written and all(
            self._is_stored(buffer, stored, offset) for stored, offset in self._loads(buffer)
        )

    def _loads(self, buffer: Buffer) -> Iterator[tuple[int, Size | None]]:
        """By the number of a store, what is read for it."""
        for number, (store, _) in enumerate(self._walks):
            for term in postorder(store.roots):
                if term.op is _LOAD and term.attr("buffer") is buffer:
                    yield number, _as_size(term.operands[0])
            if store.combine is not None and store.buffer is buffer:
                yield number, _as_size(store.offset)

    def _keeps(self, buffer: Buffer) -> Iterator[Size]:
        """Where reductions keep elements in a buffer."""
        for term in postorder([root for store, _ in self._walks for root in store.roots]):
            if term.op is _KEEP and term.attr("buffer") is buffer:
                offset = _as_size(term.operands[1])
                if offset is not None:
                    yield offset

    def _is_stored(self, buffer: Buffer, number: int, offset: Size | None) -> bool:
        if offset is None:
            return False
        around = dict(self._walks[number][1] or ())
        read = {**dict(axes_in(offset)), **around}
        for kept in self._keeps(buffer):
            if _same_elements(offset, read, kept, {**dict(axes_in(kept)), **around}):
                return True
        for store, walks in self._walks[:number]:
            stored = _as_size(store.offset)
            plain = store.buffer is buffer and store.combine is None and store.where is None
            if plain and stored is not None and walks is not None and _same_elements(offset, read, stored, dict(walks)):
                return True
        return False


def data_written(kernel: Kernel) -> set[Buffer]:
    """The buffers of a loop nest that it stores to where data says: by offsets, conditions, or bounds of loops."""
    return {
        store.buffer
        for store, walks in _walks(kernel.body, ())
        if walks is None or store.where is not None or _as_size(store.offset) is None
    }


def _same_elements(
    read: Size, reading: Mapping[SizeExpr, Size], stored: Size, storing: Mapping[SizeExpr, Size]
) -> bool:
    """Whether an offset reads what another has stored, each of its own axes for one of the other's.

    These loops of the store have ended: none of them is around the read.
    """
    mine = [axis for axis, _ in axes_in(read)]
    others = [axis for axis, _ in axes_in(stored)]
    if any(axis in storing and reading[axis] != storing[axis] for axis in mine):
        return False
    if read == stored:
        return True
    alone = [axis for axis in mine if axis not in others]
    apart = [axis for axis in others if axis not in mine]
    if len(alone) != len(apart) or any(axis in reading for axis in apart):
        return False
    images: dict[SizeExpr, Size] = {}
    for axis in alone:
        step = coefficient(read, axis) if isinstance(read, SizeExpr) else 0
        for other in apart:
            same = reading[axis] == storing.get(other) and other not in images.values()
            if same and isinstance(stored, SizeExpr) and coefficient(stored, other) == step:
                images[axis] = other
                break
    return len(images) == len(alone) and substitute(read, images) == stored


def _walks(
    body: Sequence[Statement], around: tuple[Walk, ...] | None
) -> Iterator[tuple[Store, tuple[Walk, ...] | None]]:
    """Stores in order, with the loops around them; None where a loop's bounds depend on data."""
    for statement in body:
        if isinstance(statement, Loop):
            axis = statement.axis
            if around is None or isinstance(axis.extent, Scalar) or axis.start != 0:
                inside = None
            else:
                inside = (*around, (axis.symbol, axis.extent))
            yield from _walks(statement.body, inside)
        elif isinstance(statement, Store):
            yield statement, around


def _as_size(offset: Scalar | Size) -> Size | None:
    if not isinstance(offset, Scalar):
        return offset
    if offset.op is _INDEX:
        return offset.attr("expr")
    return offset.attr("value") if offset.op.name == "constant" and offset.type is int64 else None


def buffer_of(word: object) -> Buffer | None:
    """The buffer that an argument word is an address in."""
    buffer = word.buffer if isinstance(word, Address) else word
    return buffer if isinstance(buffer, Buffer) else None


def given_buffers(
    buffers: Sequence[Buffer], words: Sequence[object], given: Mapping[Buffer, Buffer]
) -> dict[Buffer, Buffer]:
    """The buffers that a launch passes to its kernel; `given` maps a row block's own buffers."""
    outers: dict[Buffer, Buffer] = {}
    for buffer, word in zip(buffers, words, strict=False):
        outer = buffer_of(word)
        if outer is not None:
            outers[buffer] = given.get(outer, outer)
    return outers


def starts_of(buffers: Sequence[Buffer], words: Sequence[object]) -> dict[Buffer, Size]:
    """Where a kernel's buffers begin in those that a launch passes, unless at their first element."""
    pairs = zip(buffers, words, strict=False)
    return {buffer: word.offset for buffer, word in pairs if isinstance(word, Address)}


def product_piece(kernel: GemmKernel, launch: Launch, name: str) -> Piece | None:
    """The elements of `a` or `b` that a product reads, or of `c` that it writes.

    None for a packed operand and for an absent one.
    """
    words = dict(zip(TASK_ARGS, launch.arguments, strict=False))
    word, tile = words[name], kernel.tile
    if buffer_of(word) is None or (tile.a_packed if name == "a" else name == "b" and tile.b_packed):
        return None
    sizes = {name: word for name, word in words.items() if not isinstance(word, (Buffer, Address))}
    m, n, k, inner = (sizes[name] for name in ("m", "n", "k", "inner_batches"))
    outer = floordiv(launch.count, inner) if inner not in (0, launch.count) else 1
    sides = {"a": (m, k, tile.a_format), "b": (k, n, tile.b_format), "c": (m, n, "row")}
    rows, columns, layout = sides[name]
    if layout != "row":
        rows, columns = columns, rows
    offset: Size = word.offset if isinstance(word, Address) else 0
    walks: list[Walk] = []
    for extent, step, letter in (
        (outer, sizes[f"{name}_batch"], "b"),
        (inner, sizes[f"{name}_inner"], "g"),
        (rows, sizes["ldc" if name == "c" else f"{name}_ld"], "i"),
        (columns, 1, "j"),
    ):
        if extent != 1:
            axis = axis_symbol(extent, letter)
            offset = offset + axis * step
            walks.append((axis, extent))
    return Piece(offset, tuple(walks))
