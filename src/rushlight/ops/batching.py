"""Batching: any operator over a further dim in front of some of its operands.

`over_batch(sum_, (True,), attrs)` on a matrix is the operator `sum` of each of its rows. There are two ways: the
operator itself, where it is pointwise and its operands line up; else a `Batched` operator, whose rules are those of
the operator with one more loop. So an element has the same bits
as the operator gives for it alone, and batched operators fuse, compile and differentiate as others do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from rushlight.ir.graph import NUMBER, RESULT, Graph, GraphBuilder, Node
from rushlight.ir.loops import Operand, Scatter
from rushlight.ir.scalar import Scalar
from rushlight.ir.type import Layout, TensorType, in_elements_of
from rushlight.ir.value import Value, map_operands
from rushlight.ops.index_ranges import RULES, Named, Range
from rushlight.ops.promote import promote
from rushlight.ops.record import OPERATORS, Declaration, Fact, Operator
from rushlight.support import events
from rushlight.support.errors import fail
from rushlight.sym import Size, axis_symbol

Mask = tuple[Any, ...]
"""For each operand whether it is batched; for a list of tensors, a tuple of that."""

Apply = Callable[[Operator, tuple[Any, ...], Mapping[str, Any]], Any]


def is_batched(mask: Sequence[object]) -> bool:
    """Whether any operand of a mask is batched."""
    return any(any(part) if isinstance(part, tuple) else part for part in mask)


def over_batch(
    op: Operator, operands: tuple[object, ...], mask: Mask, attrs: Mapping[str, object], apply: Apply
) -> Any:
    """The result of an operator for each place of the dim in front; `apply` calls an operator on values."""
    if Fact.POINTWISE in op.facts and Fact.RANDOM not in op.facts and not attrs.keys() & {"dim", "dims"}:
        aligned = _aligned(operands, mask)
        if aligned is not None:
            return apply(op, aligned, attrs)
    for fact, why in ((Fact.DATA_DEPENDENT, "sizes of its result depend on values"), (Fact.CONTROL, "it runs graphs")):
        if fact in op.facts:
            fail("A006", f"vmap: {op.name} has no batched form, since {why}", hint="call it outside of vmap")
    if Fact.HOST in op.facts:
        events.fallback("A006", f"vmap: {op.name} is a call on the host, and runs once for each place of the batch")
    return apply(batched_operator(op, mask), operands, attrs)


# Pointwise operators.


def _aligned(operands: tuple[object, ...], mask: Mask) -> tuple[Any, ...] | None:
    """Pointwise operands with dims put in so that they broadcast; None where dtypes would differ."""
    if any(isinstance(operand, tuple) for operand in operands):
        return None
    values = [operand for operand in operands if isinstance(operand, Value)]
    types = [type_of_value(value) for value in values]
    flags = [flag for operand, flag in zip(operands, mask, strict=True) if isinstance(operand, Value)]
    single = [_one(type_) if flag else type_ for type_, flag in zip(types, flags, strict=True)]
    if promote(*single) is not promote(*types):
        return None
    rank = max(len(type_.shape) for type_ in single)
    return tuple(
        [_with_rank(operand, rank + 1) if flag else operand for operand, flag in zip(operands, mask, strict=True)]
    )


def _with_rank(value: Any, rank: int) -> Any:
    """A batched value with dims of size 1 behind the first, up to so many dims."""
    while len(value.shape) < rank:
        value = OPERATORS["unsqueeze"](value, 1)
    return value


def type_of_value(value: Any) -> TensorType:
    """The type of a node or of a tensor."""
    return value.type if isinstance(value, Node) else value.form.type


# Types.


def _one(type_: TensorType) -> TensorType:
    """The type of what one place of the batch holds."""
    return TensorType(type_.shape[1:], type_.dtype, type_.device, type_.strides[1:], type_.weak)


def _many(type_: TensorType, size: Size) -> TensorType:
    return TensorType((size, *type_.shape), type_.dtype, type_.device)


def _mapped(operand: object, part: object, image: Callable[[Any], object]) -> Any:
    """`image` of an operand's batched parts."""
    if isinstance(operand, tuple):
        flags = part if isinstance(part, tuple) else (part,) * len(operand)
        return tuple([image(element) if flag else element for element, flag in zip(operand, flags, strict=True)])
    return image(operand) if part else operand


def _first(operands: Sequence[Any], mask: Mask) -> Any:
    """The first batched value."""
    for operand, part in zip(operands, mask, strict=True):
        if isinstance(part, tuple):
            for element, flag in zip(operand, part, strict=True):
                if flag:
                    return element
        elif part:
            return operand
    raise AssertionError("nothing is batched")


class _Row:
    """An operand of a lowering rule at one place of the batch."""

    __slots__ = ("_at", "_whole", "type")

    def __init__(self, whole: Operand, at: Size) -> None:
        self._whole = whole
        self._at = at
        self.type = _one(whole.type)

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of its dims."""
        return self.type.shape

    @property
    def dtype(self) -> Any:
        """Its element type."""
        return self.type.dtype

    def __getitem__(self, index: Any) -> Scalar:
        return self._whole[(self._at, *(index if isinstance(index, tuple) else (index,)))]


# Rules traced for one place, and replayed over the batch.


class Traced(NamedTuple):
    """A rule as a graph, and how its results are put together from the graph's outputs."""

    graph: Graph
    rebuild: Callable[[list[Any]], Any]


def _trace(run: Callable[..., object], inputs: Sequence[object], flags: Mask) -> tuple[Traced, list[Any], list[bool]]:
    """A rule on nodes of one place; also values for the graph's parameters, and which are batched."""
    builder = GraphBuilder()
    values: list[Any] = []
    batched: list[bool] = []

    def node(value: Any, flag: bool) -> Any:
        if not isinstance(value, Value):
            return value
        type_ = type_of_value(value)
        values.append(value)
        batched.append(flag)
        return builder.parameter(f"p{len(values)}", _one(type_) if flag else type_)

    arguments: list[Any] = []
    for value, part in zip(inputs, flags, strict=True):
        if isinstance(value, tuple):
            parts = part if isinstance(part, tuple) else (part,) * len(value)
            arguments.append(tuple([node(element, flag) for element, flag in zip(value, parts, strict=True)]))
        else:
            arguments.append(node(value, part))
    outputs: list[Any] = []
    rebuild = _taken_apart(run(*arguments), builder, outputs)
    return Traced(builder.graph(outputs), rebuild), values, batched


def _taken_apart(result: object, builder: GraphBuilder, outputs: list[Any]) -> Callable[[list[Any]], Any]:
    """Adds a result's nodes to `outputs`; returns what builds the result of others in their place."""
    if isinstance(result, (tuple, list)):
        parts = [_taken_apart(element, builder, outputs) for element in result]
        return lambda values: tuple([part(values) for part in parts])
    if result is None:
        return lambda values: None
    position = len(outputs)
    outputs.append(result if isinstance(result, Node) else Node(builder, builder.operand(result)))
    return lambda values: values[position]


def _replay(traced: Traced, values: Sequence[object], batched: Sequence[bool], apply: Apply) -> list[tuple[Any, bool]]:
    """A traced rule's outputs over the batch, and whether they are batched."""
    images: dict[int, Any] = {
        id(call): pair for call, pair in zip(traced.graph.parameters, zip(values, batched, strict=True), strict=True)
    }
    for call in traced.graph.calls:
        if call.op is NUMBER:
            images[id(call)] = call.attr("value"), False
        elif call.op is RESULT:
            results, flag = images[id(call.operands[0])]
            images[id(call)] = results[call.attr("index")], flag
        else:
            operands = map_operands(call.operands, lambda operand: images[id(operand)][0])
            mask = map_operands(call.operands, lambda operand: images[id(operand)][1])
            mask = tuple([False if part is None else part for part in mask])
            attrs = dict(call.attrs)
            op: Any = call.op
            flag = is_batched(mask)
            images[id(call)] = (over_batch if flag else _plain)(op, operands, mask, attrs, apply), flag
    return [images[id(call)] for call in traced.graph.outputs]


def _plain(op: Operator, operands: tuple[object, ...], mask: Mask, attrs: Mapping[str, object], apply: Apply) -> Any:
    return apply(op, operands, attrs)


def _whole(value: Any, flag: bool, size: Size, apply: Apply) -> Any:
    """A result over the batch; one that is the same for all places is repeated."""
    if flag:
        return value
    if not isinstance(value, Value):
        value = apply(OPERATORS["full"], (value,), {"size": (), "dtype": None, "device": None})
    return OPERATORS["expand"](OPERATORS["unsqueeze"](value, 0), (size, *value.shape))


class Batched(Operator):
    """An operator with a further dim in front of the operands that `mask` says, and of all results."""

    __slots__ = ("base", "mask")

    def __init__(self, base: Operator, mask: Mask) -> None:
        text = "_".join([_digits(part) for part in mask])
        schema = base.schema.text.replace(base.name, f"{base.name}.over_{text}", 1)
        facts = base.facts & ~(Fact.POINTWISE | Fact.VIEW)
        super().__init__(Declaration(schema, base.doc, facts, base.dtypes, base.autocast, ""), base.module)
        self.base = base
        self.mask = mask
        self._take_rules(base)

    def _take_rules(self, base: Operator) -> None:
        """Attaches the base's rules, each with one more dim."""
        shows = bool(self.mask) and self.mask[0] is True and not is_batched(self.mask[1:])
        if base.view_rule is not None and shows:
            self.view_rule = self._viewed(base.view_rule)
            self.facts |= base.facts & Fact.VIEW
            if base.shares_rule is not None:
                self.shares_rule = self._viewed(base.shares_rule)
            if base.inverse_rule is not None:
                self.inverse_rule = self._inverted
        if base.meta_rule is not None or base.view_rule is None or not shows:
            self.meta_rule = self._typed_over
        if base.lower_rule is not None:
            self.lower_rule = self._lowered
        if base.decompose_rule is not None:
            self.decompose_rule = self._decomposed
        self.ref_rule = self._by_loop
        if base.vjp_rule is not None:
            self.vjp_rule, self.vjp_needs, self.vjp_types = self._differentiated, base.vjp_needs, base.vjp_types

    def _operands_of(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple([named[operand.name] for operand in self.schema.operands])

    def _single(self, named: dict[str, Any], image: Callable[[Any], Any]) -> dict[str, Any]:
        """Arguments by name with `image` of what is batched."""
        for operand, part in zip(self.schema.operands, self.mask, strict=True):
            named[operand.name] = _mapped(named[operand.name], part, image)
        return named

    def _typed_over(self, **named: Any) -> Any:
        size = _first(self._operands_of(named), self.mask).shape[0]
        single = self._single(dict(named), _one)
        operands = self._operands_of(single)
        result = self.base.infer(operands, {name: single[name] for name in single if name in self._attribute_names()})
        return tuple([_many(element, size) for element in result]) if isinstance(result, tuple) else _many(result, size)

    def _attribute_names(self) -> list[str]:
        return [attribute.name for attribute in self.schema.attributes]

    def _viewed(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        name = self.schema.operands[0].name

        def view(**named: Any) -> Any:
            whole: Layout = named[name]
            one = Layout(whole.shape[1:], whole.strides[1:], whole.offset, whole.dtype)
            shown: Layout | None = rule(**{**named, name: one})
            if shown is None:
                return None
            distance = whole.strides[0]
            if shown.dtype is not None and whole.dtype is not None:
                distance = in_elements_of(shown.dtype, distance, whole.dtype)
            strides = (distance, *shown.strides)
            return Layout((whole.shape[0], *shown.shape), strides, shown.offset, shown.dtype)

        return view

    def _inverted(self, base: Any, value: Any, **attrs: Any) -> Any:
        rule: Any = self.base.inverse_rule
        traced, values, flags = _trace(lambda one, part: rule(one, part, **attrs), (base, value), (True, True))
        return _whole(*_replay(traced, values, flags, base.apply)[0], base.shape[0], base.apply)

    def _lowered(self, at: tuple[Any, ...], **named: Any) -> Any:
        rule: Any = self.base.lower_rule
        result = rule(at[1:], **self._single(dict(named), lambda operand: _Row(operand, at[0])))
        if not isinstance(result, Scatter):
            return result
        size = _first(self._operands_of(named), self.mask).shape[0]
        batch_axis = axis_symbol(size, "b")
        inner: Scatter = rule(at[1:], **self._single(dict(named), lambda operand: _Row(operand, batch_axis)))
        axes, place = (batch_axis, *inner.axes), (batch_axis, *inner.index)
        return replace(inner, initial=result.initial, axes=axes, index=place)

    def _decomposed(self, **named: Any) -> Any:
        rule: Any = self.base.decompose_rule
        names = [operand.name for operand in self.schema.operands]
        attrs = {name: named[name] for name in self._attribute_names()}
        operands = self._operands_of(named)
        first = _first(operands, self.mask)
        traced, values, flags = _trace(
            lambda *items: rule(**dict(zip(names, items, strict=True)), **attrs), operands, self.mask
        )
        results = _replay(traced, values, flags, first.apply)
        return traced.rebuild([_whole(value, flag, first.shape[0], first.apply) for value, flag in results])

    def _by_loop(self, **named: Any) -> Any:
        rule: Any = self.base.kernels.get("cpu") or self.base.ref_rule
        if rule is None:
            fail("X002", f"{self.base.name}: there is neither a kernel nor a ref rule")
        count = _first(self._operands_of(named), self.mask).shape[0]
        rows = [rule(**self._single(dict(named), itemgetter(position))) for position in range(count)]
        if not rows:  # shapes and dtypes come from a place that is not there
            none = rule(**self._single(dict(named), lambda operand: np.zeros(operand.shape[1:], operand.dtype)))
            nothing: Any = [np.asarray(element)[None][:0] for element in (none if isinstance(none, tuple) else (none,))]
            return tuple(nothing) if isinstance(none, tuple) else nothing[0]
        if isinstance(rows[0], tuple):
            return tuple([np.stack([row[part] for row in rows]) for part in range(len(rows[0]))])
        return np.stack([np.asarray(row) for row in rows])

    def _differentiated(self, g: Any, **named: Any) -> Any:
        rule: Any = self.base.vjp_rule
        masks = dict(zip([operand.name for operand in self.schema.operands], self.mask, strict=True))
        attributes = self._attribute_names()
        names = [name for name in named if name not in attributes]
        fixed = {name: named[name] for name in named if name in attributes}
        for name in self.vjp_types:
            fixed[name] = _mapped(named[name], masks.get(name, True), _one)
        names = [name for name in names if name not in self.vjp_types]
        inputs = (g, *[named[name] for name in names])
        flags = (True, *[masks.get(name, True) for name in names])
        traced, values, batched = _trace(
            lambda g, *items: rule(g, **dict(zip(names, items, strict=True)), **fixed), inputs, flags
        )
        first = next(value for value, flag in zip(values, batched, strict=True) if flag)
        replayed = _replay(traced, values, batched, first.apply)
        return self._added_up(traced.rebuild(replayed), first)

    def _added_up(self, gradients: Any, first: Any) -> Any:
        """Gradients of a rule's shape: those of operands that all places share are summed over the batch."""
        parts: list[Any] = list(self.mask)
        several = isinstance(gradients, tuple) and not _is_pair(gradients)
        if len(parts) == 1 and not (several and len(gradients) == 1 and _nested(gradients[0])):
            if several and isinstance(parts[0], tuple):
                return tuple([self._summed(pair, flag, first) for pair, flag in zip(gradients, parts[0], strict=True)])
            pair = gradients[0] if several else gradients
            return (self._summed(pair, parts[0], first),) if several else self._summed(pair, parts[0], first)
        return tuple(
            [
                tuple([self._summed(pair, flag, first) for pair, flag in zip(gradient, part, strict=True)])
                if isinstance(part, tuple) and gradient is not None
                else self._summed(gradient, part, first)
                for gradient, part in zip(gradients, parts, strict=True)
            ]
        )

    def _summed(self, pair: Any, shared_by_none: Any, first: Any) -> Any:
        if pair is None:
            return None
        value, flag = pair
        if shared_by_none:
            return _whole(value, flag, first.shape[0], first.apply)
        whole = _whole(value, flag, first.shape[0], first.apply)
        return OPERATORS["sum"](whole, (0,))


def _digits(part: Any) -> str:
    return "".join([str(int(element)) for element in (part if isinstance(part, tuple) else (part,))])


def operator_named(name: str) -> Batched:
    """The operator over a batch of which a name tells the mask, as in the text of a graph. Errors: KeyError."""
    base_name, _, text = name.rpartition(".over_")
    base = OPERATORS[base_name]
    parts = text.split("_")
    if len(parts) != len(base.schema.operands):
        raise KeyError(name)
    flags = [tuple([digit == "1" for digit in part]) for part in parts]
    several = [operand.type.endswith("[]") for operand in base.schema.operands]
    return batched_operator(base, tuple([part if many else part == (True,) for part, many in zip(flags, several)]))


def _is_pair(value: Any) -> bool:
    return len(value) == 2 and isinstance(value[1], bool)


def _nested(value: object) -> bool:
    return isinstance(value, tuple) and not _is_pair(value)


_made: dict[tuple[Operator, Mask], Batched] = {}


def batched_operator(op: Operator, mask: Mask) -> Batched:
    """The operator over a batch, one object for each mask."""
    made = _made.get((op, mask))
    if made is None:
        made = _made.setdefault((op, mask), Batched(op, mask))
        if op in RULES:
            RULES[made] = partial(_ranges_of_one, op, mask)
    return made


def _ranges_of_one(op: Operator, mask: Mask, named: Named) -> list[Range]:
    """The ranges of the indices of each place of a batch: those of the operator for one place."""
    names = [parameter.name for parameter in op.schema.operands]
    tables = {name: part for name, part in zip(names, mask, strict=True) if isinstance(named[name], TensorType)}
    return RULES[op]({**named, **{name: _mapped(named[name], part, _one) for name, part in tables.items()}})
