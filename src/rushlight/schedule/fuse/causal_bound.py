"""Bounds the columns that a block of rows reads where a condition on indices leaves zeros beyond.

In causal attention a row sees the columns up to its own. Beyond them scores are minus infinity and weights are zero:
sums and maxima are the identity there, and a product with a weight of zero adds nothing if the other factor is finite.
So the columns of a row block end at its `CausalBound`: the column of its last row if the values are finite, which is
looked up when the row block runs, and all columns otherwise. The bits are the same either way.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rushlight.ir.dtype import bool_
from rushlight.ir.plan import CausalBound, RowBlockLoop
from rushlight.ir.scalar import LANES, OPS, Buffer, Scalar, apply, bound_axes, constant, reduce
from rushlight.ir.type import TensorType
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.gemm.recognition import match_gemm
from rushlight.schedule.lower.nodes import Node, make_node
from rushlight.schedule.lower.rewrite import Index, Substitution, as_size, free_axes, fresh_axes, loads
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    coefficient,
    lt,
    minimum,
    size_of_code,
    statically_known,
    substitute,
)
from rushlight.term import postorder

_IDENTITIES = {"sum": 0.0, "max": -math.inf, "min": math.inf}


@dataclass(frozen=True, slots=True)
class End:
    """A product with an operand that is zero beyond the end of an axis. `factor` is the other operand's position."""

    group: Group
    axis: SizeExpr
    factor: int


def finite_flags(factors: Sequence[tuple[Group, int]], batch: int, name: str) -> Node:
    """A node with one flag per batch index: whether all elements of the given operands are finite."""
    first = factors[0][0].nodes[0]
    axes = fresh_axes(first.axes[:batch], "b")
    flags = Buffer(name, TensorType(tuple([axis_size(axis) for axis in axes]), bool_), "arena")
    result: list[Scalar] = []
    for group, factor in factors:
        node = group.nodes[0]
        assert node.contraction is not None
        term, mentioned = node.contraction.operands[factor], free_axes(node.contraction.operands[factor])
        all_axes = (*node.contraction.attr("axes"), *node.axes[batch:])
        inner = fresh_axes([axis for axis in all_axes if axis in mentioned], "k")
        images: dict[SizeExpr, Index] = dict(zip(node.axes[:batch], axes.values(), strict=True))
        finite = apply("lt", apply("abs", term), constant(math.inf, term.type))
        result.append(reduce("all", tuple(inner.values()), Substitution({**images, **inner})(finite), LANES))
    body, *rest = dict.fromkeys(result)
    for other in rest:
        body = apply("and", body, other)
    return make_node(flags, first.order, tuple(axes.values()), body)


class Limits:
    """The parts of a chain's groups that need no computing past the causal bound.

    There are none unless a product gets shorter.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        private: Collection[Buffer],
        sums: Collection[Group],
        makers: Mapping[Buffer, Node],
        rows: RowBlockLoop,
    ) -> None:
        self.groups = groups
        self.makers = makers
        self.sums = sums
        self.private = private
        self.end = rows.start + rows.length
        self.beyond: dict[Buffer, Scalar] = {}
        for node in self.nodes():
            value = self.value_beyond(node.body, node.axes[-1]) if len(node.axes) > 1 else None
            if value is not None:
                self.beyond[node.buffer] = value
        ends = [end for group in groups for end in self.ends_of(group)]
        self.ends = [end for end in ends if axis_size(end.axis) == axis_size(ends[0].axis)]
        self.causal_bound = size_of_code("reach", 64)

    @property
    def columns(self) -> Size:
        """The number of columns of the values that end."""
        return axis_size(self.ends[0].axis)

    def nodes(self) -> list[Node]:
        """The nodes in program order."""
        return [node for group in self.groups for node in group.nodes]

    def value_beyond(self, term: Scalar, axis: SizeExpr) -> Scalar | None:
        """The constant that a term is wherever an axis is past the end."""
        while term.op is OPS["select"] and self.never(term.operands[0], axis):
            term = term.operands[2]
        if term.op is OPS["load"] and term.operands and as_size(term.operands[-1]) is axis:
            value = self.beyond.get(term.attr("buffer"))
            return self.made_beyond(term, axis) if value is None else value
        if term.op is OPS["mul"]:
            a, b = (self.value_beyond(operand, axis) for operand in term.operands)
            return a if a is b and _is_zero(a) else None
        return term if term.op is OPS["constant"] else None

    def made_beyond(self, load: Scalar, axis: SizeExpr) -> Scalar | None:
        """The constant that a load finds past the end, if it was written before the row blocks run."""
        maker = self.makers.get(load.attr("buffer"))
        if maker is None:
            return None
        sizes = load.attr("buffer").type.shape
        at = [operand for operand, size in zip(load.operands, sizes, strict=True) if size != 1]
        images = Substitution(dict(zip(maker.axes, at, strict=True)))
        term = maker.body
        while term.op is OPS["select"] and self.never(images(term.operands[0]), axis):
            term = term.operands[2]
        return term if term.op is OPS["constant"] else None

    def never(self, condition: Scalar, axis: SizeExpr) -> bool:
        """Whether a condition, an order of indices, holds nowhere past the end."""
        if condition.op not in (OPS["lt"], OPS["le"]):
            return False
        a, b = (as_size(operand) for operand in condition.operands)
        if a is None or b is None:
            return False
        gap = a - b if condition.op is OPS["le"] else a - b + 1
        if not isinstance(gap, SizeExpr) or coefficient(gap, axis) != 1:
            return False
        return statically_known(lt(0, substitute(gap, {axis: self.end})))

    def ends_of(self, group: Group) -> Iterator[End]:
        """The inner axes of a product past whose end one operand is zero.

        The other operand must exist before the row blocks run, so that its finiteness can be looked up.
        """
        contraction = group.nodes[0].contraction
        if group.gemm is None or contraction is None or len(contraction.attr("axes")) != 1:
            return
        axes = group.nodes[0].axes if group in self.sums else contraction.attr("axes")
        made = {node.buffer for node in self.nodes()}
        for position, operand in enumerate(contraction.operands):
            if any(load.attr("buffer") in made for load in loads(contraction.operands[1 - position])):
                continue
            for axis in axes:
                if axis in free_axes(operand) and _is_zero(self.value_beyond(operand, axis)):
                    yield End(group, axis, 1 - position)

    def applied(self) -> list[Group]:
        """The groups with axes shortened to the causal bound."""
        size = self.columns
        images: dict[Node, dict[SizeExpr, Index]] = {}
        for group in self.groups:
            for node in group.nodes:
                axes = [axis for axis in self.ending_axes(group, node) if axis_size(axis) == size]
                images[node] = {axis: axis_symbol(self.causal_bound, "j") for axis in axes}
        short = self.short_columns(images)
        groups: list[Group] = []
        for group in self.groups:
            rests = [self.rest(node) for node in group.nodes if node.buffer in short and self.is_whole(node)]
            groups += [self.shortened(group, images, short), *[Group(group.number, (rest,), None) for rest in rests]]
        return groups

    def is_whole(self, node: Node) -> bool:
        """Whether groups outside the chain read a value."""
        return node.stored and node.buffer not in self.private

    def rest(self, node: Node) -> Node:
        """A node that writes the constants past the bound of a value that others read."""
        *rows, columns = node.axes
        axis = axis_symbol(self.columns - self.causal_bound, "j")
        index = tuple([substitute(position, {columns: axis + self.causal_bound}) for position in node.index()])
        return node.with_body((*rows, axis), self.beyond[node.buffer], index)

    def ending_axes(self, group: Group, node: Node) -> list[SizeExpr]:
        """The bound axes of a node past whose end all terms are the identity."""
        result: list[SizeExpr] = []
        for term in postorder([node.body]):
            axes = bound_axes(term)
            if term.op is OPS["contract"]:
                result += [end.axis for end in self.ends if end.group is group]
            elif term.op is OPS["reduce"] and len(axes) == 1:
                value = self.value_beyond(term.operands[0], axes[0])
                if value is not None and value.attr("value") == _IDENTITIES.get(term.attr("kind")):
                    result += axes
        return result

    def short_columns(self, images: Mapping[Node, dict[SizeExpr, Index]]) -> set[Buffer]:
        """Values that need not be computed past the bound: never read there, or known constants there."""
        short: set[Buffer] = set()
        for made in reversed(self.nodes()):
            if len(made.axes) < 2 or axis_size(made.axes[-1]) != self.columns:
                continue
            readers = [(node, load) for node in self.nodes() for load in loads(node.body)]
            ends = [
                self.ends_in(node, load, images[node], short)
                for node, load in readers
                if load.attr("buffer") is made.buffer
            ]
            if made.buffer in self.beyond if self.is_whole(made) else ends and all(ends):
                short.add(made.buffer)
                images[made][made.axes[-1]] = axis_symbol(self.causal_bound, "j")
        return short

    def ends_in(self, node: Node, load: Scalar, images: Mapping[SizeExpr, Index], short: set[Buffer]) -> bool:
        """Whether the last index of a load stays below the causal bound."""
        axis = as_size(load.operands[-1])
        return isinstance(axis, SizeExpr) and (axis in images or (node.buffer in short and axis is node.axes[-1]))

    def shortened(self, group: Group, images: Mapping[Node, dict[SizeExpr, Index]], short: set[Buffer]) -> Group:
        """A group with shorter axes."""
        nodes: list[Node] = []
        for node in group.nodes:
            mine = images[node]
            sizes = {axis: image for axis, image in mine.items() if not isinstance(image, Scalar)}
            axes = tuple([axis for axis in (sizes.get(axis, axis) for axis in node.axes) if isinstance(axis, SizeExpr)])
            body = Substitution(mine)(node.body) if mine else node.body
            index = None if node.place is None else tuple([substitute(expr, sizes) for expr in node.place])
            nodes.append(node.with_body(axes, body, index))
        return Group(group.number, tuple(nodes), group.outer, None if group.gemm is None else match_gemm(nodes[0]))


def causal_bound_of(limits: Limits, flags: Node, loops: Sequence[RowBlockLoop]) -> CausalBound:
    """The record with which a row block looks up its causal bound."""
    at: Size = 0
    for size, loop in zip(flags.buffer.type.shape, loops, strict=False):
        at = at * size + loop.start
    return CausalBound(limits.causal_bound, flags.buffer, at, minimum(limits.columns, limits.end), limits.columns)


def _is_zero(value: Scalar | None) -> bool:
    return value is not None and value.attr("value") == 0.0
