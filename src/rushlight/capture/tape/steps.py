"""Steps of a run-time tape as data: what is fixed of each, and the values and sizes that differ from pass to pass.

A step is called with gradients, values and sizes, by a compiled program as by Python, and gives the gradients of its
inputs. What it computes is what the node of the tape computes: nodes are built anew around other values.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.autodiff.backward import Apart
from rushlight.capture.backward import CompiledBackward, MergedBackward
from rushlight.capture.code.effects import is_quiet
from rushlight.eager.autograd.derive import gradients_by_calls
from rushlight.eager.autograd.function import FunctionNode
from rushlight.eager.autograd.node import Node
from rushlight.eager.autograd.operation import OperatorNode
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.autograd.write import CopySlices, Overwritten, made_for, through_write
from rushlight.eager.dispatch import STATE, refuse_in_graphs
from rushlight.eager.execution.attributes import split_sizes, with_sizes
from rushlight.eager.execution.operands import attribute_key
from rushlight.eager.handle import Handle, is_wrapper
from rushlight.eager.tensor_meta import TensorMeta, form_of
from rushlight.eager.tracing import TracedNumber
from rushlight.ir.dtype import DType
from rushlight.ir.type import Device
from rushlight.ops.record import OPERATORS, Operator
from rushlight.sym import Size, SizeExpr, eq, guard

Given = list[Any]
"""The gradients of a step's outputs, None where nothing has arrived."""
Begun = Sequence[tuple[int, object]]
"""Positions of inputs at which other gradients may have arrived already, and their sum so far."""
FAILED = "__rushlight_step__"  # of an error: the number of the node that failed
VALUE = object()  # where a tensor or a number stands that each pass gives
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class NotedForm(NamedTuple):
    """What is fixed of a form: how many dims it has, and whether its strides follow from the sizes."""

    dims: int
    dtype: DType
    device: Device
    weak: bool
    is_contiguous: bool


def note_form(form: TensorMeta, sizes: list[int]) -> NotedForm:
    """What is fixed of a form; its sizes, and strides that are not row-major, are added to `sizes`."""
    sizes.extend(form.shape)
    if not form.is_contiguous:
        sizes.extend(form.strides)
    return NotedForm(len(form.shape), form.dtype, form.device, form.type.weak, form.is_contiguous)


def form_again(noted: NotedForm, sizes: Iterator[Any]) -> TensorMeta:
    """The form that was noted, with the next sizes."""
    shape = tuple([next(sizes) for _ in range(noted.dims)])
    strides = None if noted.is_contiguous else tuple([next(sizes) for _ in range(noted.dims)])
    return form_of(shape, noted.dtype, noted.device, strides, noted.weak)


def note(value: object, sizes: list[int]) -> object:
    """What is fixed of something saved: forms, None, and where values stand."""
    if isinstance(value, tuple):
        return ("tuple", *[note(element, sizes) for element in value])
    if value.__class__ is TensorMeta and isinstance(value, TensorMeta):
        return ("form", note_form(value, sizes))
    return None if value is None else VALUE


def again(noted: Any, values: Iterator[object], sizes: Iterator[object]) -> Any:
    """What was noted, with the next values and sizes."""
    if noted is VALUE:
        return next(values)
    if noted is None:
        return None
    if noted[0] == "form":
        return form_again(noted[1], sizes)
    return tuple([again(element, values, sizes) for element in noted[1:]])


def _values_in(value: object, noted: Any) -> list[object]:
    """The values that stand in something that was noted."""
    if noted is VALUE:
        return [value]
    if isinstance(value, tuple) and noted is not None and noted[0] == "tuple":
        return [one for part, mark in zip(value, noted[1:], strict=True) for one in _values_in(part, mark)]
    return []


class Step(ABC):
    """What is fixed of a node, which `key_of` tells, and how gradients are computed from the rest."""

    __slots__ = ("name", "number")

    def __init__(self, node: Node) -> None:
        self.name = node.name()
        self.number = -1  # of the node in its reading

    @classmethod
    @abstractmethod
    def key_of(cls, node: Any, sizes: list[int]) -> Hashable:
        """What is fixed of a node; sizes that may be others in another pass are added to `sizes`."""

    @classmethod
    def values_of(cls, node: Any) -> list[object]:
        """What the node has saved, for one pass. Errors: G001, G003."""
        return []

    @abstractmethod
    def run(self, gradients: Given, values: Iterator[object], sizes: list[object]) -> Sequence[object]:
        """The gradients of the inputs."""

    def __call__(
        self,
        gradients: Sequence[object],
        values: Sequence[object],
        sizes: Sequence[object],
        count: int,
        begun: Begun,
    ) -> tuple[object, ...]:
        """The gradients of all `count` inputs; None of each if no gradient has arrived."""
        if all(gradient is None for gradient in gradients):
            return (None,) * count
        known: list[object] = [_size(size) for size in sizes]
        settle_ones((*gradients, *values), known)
        try:
            return tuple(self.run(list(gradients), iter(values), known))
        except Exception as error:
            setattr(error, FAILED, self.number)
            raise


def settle_ones(values: Sequence[object], sizes: Sequence[object]) -> None:
    """Guards which sizes are 1 while a step is traced.

    Gradients are summed over dims that are known to be broadcast. In a trace of the whole function the forward call
    has said so, but here the backward pass alone is traced.
    """
    forms = [value.form for value in values if isinstance(value, Handle) and value.form.symbolic]
    for size in (*sizes, *[size for form in forms for size in form.shape]):
        if isinstance(size, SizeExpr):
            guard(eq(size, 1))


def _size(size: Any) -> Size:
    return size.size() if isinstance(size, TracedNumber) else size


class OperatorStep(Step):
    """The gradients of one operator call."""

    __slots__ = ("_attrs", "_needed", "_results", "_rule", "_saved", "_sizes", "_structure")

    def __init__(self, node: OperatorNode) -> None:
        super().__init__(node)
        recipe = node.recipe
        sizes: list[int] = []
        self._rule, self._structure, self._needed = recipe.rule, recipe.structure, recipe.needed
        self._attrs: Mapping[str, object] = recipe.attrs
        _attributes(recipe.rule.owner, recipe.attrs, sizes)
        self._sizes = len(sizes)
        self._results = len(recipe.forms)
        self._saved = [note(value, sizes) for value in node.saved]

    @classmethod
    def key_of(cls, node: OperatorNode, sizes: list[int]) -> Hashable:
        """The operator, its attributes, and which of its operands need gradients of what."""
        recipe = node.recipe
        attrs = _attributes(recipe.rule.owner, recipe.attrs, sizes)
        saved = tuple([note(value, sizes) for value in node.saved])
        return cls, recipe.rule.owner, attrs, recipe.structure, recipe.needed, len(recipe.forms), saved

    @classmethod
    def values_of(cls, node: OperatorNode) -> list[object]:
        """The tensors and numbers that are saved."""
        sizes: list[int] = []
        pairs = zip(node.saved_tensors(), node.saved, strict=True)
        return [one for value, kept in pairs for one in _values_in(value, note(kept, sizes))]

    def run(self, gradients: Given, values: Iterator[object], sizes: list[object]) -> Sequence[object]:
        """The rule of the operator, call by call."""
        attrs = self._attrs
        if isinstance(self._rule.owner, Operator):
            attrs = with_sizes(self._rule.owner, attrs, sizes[: self._sizes])
        rest = iter(sizes[self._sizes :])
        arrived = [*gradients, *[None] * (self._results - len(gradients))]
        saved = [again(noted, values, rest) for noted in self._saved]
        return gradients_by_calls(self._rule, attrs, self._structure, self._needed, [*arrived, *saved])


def _attributes(owner: object, attrs: Mapping[str, object], sizes: list[int]) -> Hashable:
    if not isinstance(owner, Operator):
        return attribute_key(attrs)
    static, found = split_sizes(owner, attrs)
    sizes.extend(found)
    return static


class FunctionStep(Step):
    """The backward of a custom function, given a `ctx` of its own."""

    __slots__ = ("_fixed", "_forms", "_inputs", "_names", "_parts", "_saved")

    def __init__(self, node: FunctionNode) -> None:
        super().__init__(node)
        sizes: list[int] = []
        parts = node.parts()
        self._forms = [None if form is None else note_form(form, sizes) for form in parts.forms]
        self._inputs = [note_form(form, sizes) for form in parts.input_forms]
        self._saved = [note(value, sizes) for value in parts.saved]
        self._parts = parts._replace(forms=(), input_forms=(), saved=())
        self._fixed = {name: value for name, value in vars(node).items() if type(value) in _PLAIN}
        self._names = [name for name in vars(node) if name not in self._fixed]

    @classmethod
    def key_of(cls, node: FunctionNode, sizes: list[int]) -> Hashable:
        """The function, and what its forward has left that is no tensor."""
        parts = node.parts()
        forms = tuple([None if form is None else note_form(form, sizes) for form in parts.forms])
        inputs = tuple([note_form(form, sizes) for form in parts.input_forms])
        saved = tuple([note(value, sizes) for value in parts.saved])
        attributes = tuple([(name, _plain(value)) for name, value in vars(node).items()])
        flags = parts.function, parts.needs, tuple(parts.positions), parts.materializes
        return cls, flags, forms, inputs, saved, attributes

    @classmethod
    def values_of(cls, node: FunctionNode) -> list[object]:
        """What is saved, then the attributes that are no plain values."""
        saved = [value for value in node.saved_tensors if value is not None]
        return [*saved, *[value for value in vars(node).values() if type(value) not in _PLAIN]]

    def run(self, gradients: Given, values: Iterator[object], sizes: list[object]) -> Sequence[object]:
        """What the function's backward gives, checked as the tape does."""
        rest = iter(sizes)
        forms = [None if noted is None else form_again(noted, rest) for noted in self._forms]
        inputs = [form_again(noted, rest) for noted in self._inputs]
        saved = [again(noted, values, rest) for noted in self._saved]
        node = FunctionNode.of(self._parts._replace(forms=forms, input_forms=inputs, saved=saved))
        vars(node).update(self._fixed, **{name: next(values) for name in self._names})
        return node.run(gradients, STATE.grad, set())


def _plain(value: object) -> Hashable:
    """What tells plain values apart; None of others, which each pass gives."""
    if type(value) not in _PLAIN:
        return None
    return type(value), repr(value) if isinstance(value, (float, complex)) else value


class OverwrittenStep(Step):
    """The place of a view whose elements were all replaced."""

    __slots__ = ()

    @classmethod
    def key_of(cls, node: Overwritten, sizes: list[int]) -> Hashable:
        """Nothing more."""
        return cls

    def run(self, gradients: Given, values: Iterator[object], sizes: list[object]) -> Sequence[object]:
        """No gradient for what the view held before; the whole one for the output that replaces it."""
        return [None, gradients[0]]


class CopySlicesStep(Step):
    """A base after a write to one of its views."""

    __slots__ = ("_count", "_form", "_inner", "_steps", "_widths")

    def __init__(self, node: CopySlices) -> None:
        super().__init__(node)
        kind = step_of(node.inner, False)
        assert kind is not None
        self._inner = kind(node.inner)
        inner: list[int] = []
        kind.key_of(node.inner, inner)
        self._count = len(inner)
        sizes: list[int] = []
        self._form = note_form(node.form, sizes)
        self._steps = node.steps
        self._widths = [len(split_sizes(op, attrs)[1]) for op, _, attrs in node.steps]

    @classmethod
    def key_of(cls, node: CopySlices, sizes: list[int]) -> Hashable:
        """What wrote to which view of what."""
        kind = step_of(node.inner, False)
        inner = None if kind is None else kind.key_of(node.inner, sizes)
        form = note_form(node.form, sizes)
        steps = tuple([(op, others, _attributes(op, attrs, sizes)) for op, others, attrs in node.steps])
        return cls, inner, form, steps

    @classmethod
    def values_of(cls, node: CopySlices) -> list[object]:
        """What the write has saved."""
        kind = step_of(node.inner, False)
        return [] if kind is None else kind.values_of(node.inner)

    def run(self, gradients: Given, values: Iterator[object], sizes: list[object]) -> Sequence[object]:
        """The base's gradient with the part of the view replaced, then those of the write's operands."""
        rest = iter(sizes[self._count :])
        form = form_again(self._form, rest)
        steps = tuple(
            [
                (op, others, with_sizes(op, attrs, [next(rest) for _ in range(width)]))
                for (op, others, attrs), width in zip(self._steps, self._widths, strict=True)
            ]
        )
        inner, own = self._inner, sizes[: self._count]
        whole = made_for(form, gradients[0])
        return through_write(whole, gradients[0], steps, lambda part: inner.run([part], values, own))


class CompiledStep(Step):
    """Segments of the backward pass of a compiled function, which are part of the program."""

    __slots__ = ("_count", "_first", "_more", "_part", "_symbols")

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        steps = node.steps if isinstance(node, MergedBackward) else (node,)
        first: CompiledBackward = steps[0]
        self._count = len(steps)
        self._first = first.plan.index
        self._part = weakref.ref(first.part)  # which the node holds
        self._symbols = tuple(first.sizes)
        self._more = list(first.kept()[1])

    @classmethod
    def key_of(cls, node: CompiledBackward, sizes: list[int]) -> Hashable:
        """Which segment of what it is."""
        sizes.extend(node.sizes.values())
        return cls, node.part.number, node.plan.index, tuple(node.sizes)

    @classmethod
    def values_of(cls, node: CompiledBackward) -> list[object]:
        """What the call has kept, then the inputs that it has not."""
        kept, more = node.kept()
        return [*kept, *more.values()]

    def __call__(
        self,
        gradients: Sequence[object],
        values: Sequence[object],
        sizes: Sequence[object],
        count: int,
        begun: Begun,
    ) -> tuple[object, ...]:
        """The gradients of all `count` inputs; summands of those of which a sum has begun."""
        if all(gradient is None for gradient in gradients):
            return (None,) * count
        part = self._part()
        assert part is not None, "the tape that has such a step holds what it is of"
        last = len(values) - len(self._more)
        named = dict(zip(self._symbols, map(_size, sizes), strict=True))
        nodes = part.again(self._first, values[:last], named, dict(zip(self._more, values[last:], strict=True)))
        node: Any = nodes[0] if self._count == 1 else MergedBackward(nodes)
        places = [position for position, value in begun if value is not None]
        if places:
            node.keep_apart(places)
        return tuple(node.run(list(gradients), False, set[int]()))

    def run(self, gradients: Given, values: Iterator[object], sizes: list[object]) -> Sequence[object]:
        """As it is called, where no sum has begun."""
        return self(gradients, list(values), sizes, 0, ())


_KINDS: Mapping[type[Node], type[Step]] = {
    CompiledBackward: CompiledStep,
    OperatorNode: OperatorStep,
    FunctionNode: FunctionStep,
    CopySlices: CopySlicesStep,
    Overwritten: OverwrittenStep,
}


def step_of(node: Node, create_graph: bool) -> type[Step] | None:
    """The kind of step that a node is in a program; None for one that Python runs as it is."""
    kind = next((_KINDS[one] for one in type(node).__mro__ if one in _KINDS), None)
    if isinstance(node, CompiledBackward) and (create_graph or node.is_packed):
        return None
    if isinstance(node, FunctionNode) and not _can_be_traced(node, create_graph):
        return None
    if isinstance(node, CopySlices) and (node.is_of_wrapper or any(others for _, others, _ in node.steps)):
        return None
    if isinstance(node, CopySlices) and step_of(node.inner, create_graph) is None:
        return None
    saved: Sequence[object] = ()
    if isinstance(node, OperatorNode):
        saved = node.saved
    elif isinstance(node, FunctionNode):
        saved = node.parts().saved
    return None if any(map(_is_packed, saved)) else kind


def _can_be_traced(node: FunctionNode, create_graph: bool) -> bool:
    """Whether a backward of the program's can be part of a compiled pass."""
    if not _holds_values(node):
        return False
    backward = node.parts().function.backward
    # The history of gradients without a derivative says so, and a graph has none.
    return is_quiet(backward) and not (create_graph and hasattr(backward, "once_differentiable"))


def _holds_values(node: FunctionNode) -> bool:
    """Whether what the forward left for the backward are tensors and plain values."""
    return all(type(value) in _PLAIN or isinstance(value, Handle) for value in vars(node).values())


def _is_packed(value: object) -> bool:
    """Whether a hook gives what is saved, which runs when the node does."""
    if isinstance(value, tuple):
        return any(map(_is_packed, value))
    return isinstance(value, SavedTensor) and value.is_packed


class NativeStep:
    """A node that Python runs as it is, between graphs."""

    __slots__ = ("_create_graph", "_node")

    def __init__(self, node: Node, create_graph: bool) -> None:
        self._node = node
        self._create_graph = create_graph

    def __call__(self, gradients: Sequence[object], count: int, begun: Begun) -> tuple[object, ...]:
        """The gradients of all `count` inputs."""
        if all(gradient is None for gradient in gradients):
            return (None,) * count
        node: Any = self._node
        refuse_in_graphs(node.name(), "Python runs this step of the tape")
        places = [position for position, value in begun if value is not None]
        if places:
            node.keep_apart(places)
        return tuple(node.run(list(gradients), self._create_graph, set[int]()))


def add(before: Any, gradient: Any) -> Any:
    """The sum of the gradients that have arrived at a place."""
    parts = gradient if isinstance(gradient, Apart) else (gradient,)
    for part in parts:
        before = part if before is None else before if part is None else OPERATORS["add"](before, part)
    return before


def holds_wrapper(values: Sequence[object]) -> Handle | None:
    """The first value that is a tensor of a subclass which holds others."""
    return next((value for value in values if isinstance(value, Handle) and is_wrapper(value)), None)
