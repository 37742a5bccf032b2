"""Finds groups that differ only in their buffers, such as a network's layers, to share kernels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from rushlight.ir.plan import Launch
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.lower.nodes import Node
from rushlight.sym import Size, SizeExpr, axis_size, is_axis, is_symbol, parts
from rushlight.term import attr_key, postorder


class StructuralKey:
    """A key of groups in which buffers and axes are numbers: groups with equal keys need the same kernels.

    The key covers the nodes that make what the groups read (`makers`) and `other` values. `buffers` lists the buffers
    in the order of their numbers.
    """

    def __init__(
        self, groups: Sequence[Group], aliases: Mapping[Buffer, Buffer], makers: Sequence[Node] = (), *other: object
    ) -> None:
        self._aliases = aliases
        self._buffers: dict[Buffer, int] = {}
        self._axes: dict[SizeExpr, int] = {}
        self._terms: dict[int, int] = {}
        self._parts: list[Hashable] = []
        for group in groups:
            self._parts.append((group.outer, len(group.nodes)))
            for node in group.nodes:
                self._add_node(node)
            if group.gemm is not None:
                gemm = group.gemm
                axes = [self._image(axes) for axes in (gemm.batch, gemm.rows, gemm.columns, gemm.inner)]
                self._parts.append((*axes, self._term(gemm.a), self._term(gemm.b)))
        for node in makers:
            self._add_node(node)
        self._parts.append(self._image(other))

    @property
    def key(self) -> Hashable:
        """Equal for groups that need the same kernels."""
        return tuple(self._parts)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers, in the order of their numbers."""
        return tuple(self._buffers)

    def _add_node(self, node: Node) -> None:
        position = None if node.place is None else self._image(node.place)
        self._parts.append((self._image(node.axes), self._image(node.buffer), node.stored, position))
        self._parts.append(self._term(node.body))
        if node.scatter is not None:
            scatter = node.scatter
            index = tuple([self._image(expr) for expr in scatter.index])
            self._parts.append((self._image(scatter.axes), index, self._term(scatter.value), scatter.combine))
        if node.overwrite is not None:
            over = node.overwrite
            self._parts.append((self._image(over.index), self._image(over.axes), self._term(over.initial)))

    def _term(self, root: Scalar) -> int:
        """The number of a term. Numbers its operands first."""
        terms = self._terms
        if id(root) not in terms:
            for term in postorder([root]):
                if id(term) not in terms:
                    terms[id(term)] = len(terms)
                    attrs = tuple([(name, self._image(value)) for name, value in term.attrs])
                    below = tuple([terms[id(operand)] for operand in term.operands])
                    self._parts.append((term.op, term.type, below, attrs))
        return terms[id(root)]

    def _image(self, value: object) -> Hashable:
        """A value without the identity of buffers and axes."""
        if isinstance(value, Buffer):
            return self._buffer(value)
        if isinstance(value, SizeExpr):
            return self._size(value)
        if isinstance(value, Scalar):
            return ("term", self._term(value))
        if isinstance(value, tuple):
            return tuple([self._image(element) for element in value])
        return attr_key(value)

    def _buffer(self, buffer: Buffer) -> Hashable:
        number = self._buffers.get(buffer)
        if number is None:
            number = self._buffers[buffer] = len(self._buffers)
            type_ = buffer.type
            layout = (self._image(type_.shape), self._image(type_.strides), type_.dtype)
            memory = self._aliases.get(buffer)
            alias = None if memory is None else self._buffer(memory)
            self._parts.append(("buffer", layout, buffer.scope, buffer.constant, alias))
        return ("buffer", number)

    def _size(self, size: Size) -> Hashable:
        if isinstance(size, int):
            return size
        if not is_symbol(size):
            return tuple([(scale, tuple([self._atom(atom) for atom in atoms])) for scale, atoms in parts(size)])
        if not is_axis(size):
            return size
        number = self._axes.get(size)
        if number is None:
            number = self._axes[size] = len(self._axes)
            self._parts.append(("axis", self._size(axis_size(size))))
        return ("axis", number)

    def _atom(self, atom: SizeExpr) -> Hashable:
        if is_symbol(atom):
            return self._size(atom)
        return (atom.op, *[self._size(operand) for operand in atom.operands])


class LaunchCopy:
    """Copies launches made for one group to a group with an equal key.

    Scratch memory of the launches, which has no number in the key, is created anew, with `mark` added to its name.
    """

    def __init__(self, made_for: StructuralKey, wanted: StructuralKey, mark: str) -> None:
        self._images = dict(zip(made_for.buffers, wanted.buffers, strict=True))
        self._mark = mark

    def __call__(self, launch: Launch) -> Launch:
        """The launch on the buffers of the other group."""
        for buffer in launch.buffers:
            if buffer not in self._images:
                self._images[buffer] = Buffer(f"{buffer.name}{self._mark}", buffer.type, buffer.scope)
        return launch.with_buffers(self._images)
