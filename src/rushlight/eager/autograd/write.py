"""Writes under autograd: an in-place operator gives its target, and the target's base, a new history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.derive import Rule, rule_of
from rushlight.eager.autograd.history import (
    attach,
    differentiable,
    follow,
    move_retained,
    replay,
    requires,
    rewrite,
    shown_by_base,
)
from rushlight.eager.autograd.node import Node
from rushlight.eager.autograd.operation import OperatorNode, Recipe, needed_of, recipe_for
from rushlight.eager.dispatch import Key, dispatch
from rushlight.eager.execution.decompose import run_decomposition
from rushlight.eager.execution.mutate import shows_twice
from rushlight.eager.execution.operands import flatten, form_of_operand
from rushlight.eager.handle import AUTOGRAD, BATCHED, Gradient, Handle, Step, View, allocate, is_wrapper, share
from rushlight.eager.mutation import COPY, FILL, Mutation
from rushlight.eager.tensor_meta import TensorMeta, form_of
from rushlight.ir.type import dense_order
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail


def check_write(name: str, target: Handle) -> None:
    """G002 for a leaf, G006 for a view that autograd cannot follow; `name` is what writes."""
    if target.gradient is not None and target.gradient.required:
        fail("G002", f"{name}: a leaf that requires gradients cannot be changed in place", tensor=target)
    if target.view_of is None:
        return
    base = target.view_of.base
    if base.gradient is not None and base.gradient.required:
        fail("G006", f"{name}: a view of a leaf that requires gradients cannot be changed in place", view=target)
    if not target.view_of.recorded:
        fail("G006", f"{name}: a view made under no_grad cannot be changed in place with gradients", view=target)


def record_write(
    op: Mutation, rule: Rule, operands: tuple[Any, ...], attrs: Mapping[str, Any], write: Callable[[], Any]
) -> Any:
    """Runs an in-place operator by `write` and rewrites the history of its target."""
    target = op.target_of(operands)
    flat = flatten(operands)
    # What a copy has written over is filled with zeros in the gradient of the base, where elements may overlap.
    replaces = op.base is None and target.view_of is not None
    needed = (requires(target) and not replaces, *needed_of(flat[1:]))
    edges = [edge_of(operand) if wanted else None for operand, wanted in zip(flat, needed, strict=True)]
    view: View | None = target.view_of
    base_edge = edge_of(view.base) if view is not None and requires(view.base) else None
    if any(isinstance(operand, Handle) and operand.form.symbolic for operand in flat):
        _ask_sizes(op, operands, attrs)
    recipe = recipe_for(op, rule, operands, attrs, needed, (target,))
    before = _old_values(recipe, operands, target)
    write()
    if not differentiable(target):
        return target
    node: Node = OperatorNode(recipe, operands, (target,), flat, edges, before)
    if view is None:
        rewrite(target, node, 0)
    else:
        rewrite(view.base, CopySlices(view.base, view, node, base_edge), 0)
        follow(target)
    return target


def record_function_write(target: Handle, node: Node, output: int) -> None:
    """Gives a tensor that a custom function wrote to, and its base, the history of the function's output."""
    if target.view_of is None:
        rewrite(target, node, output)
        return
    value = share(target)
    attach(value, node, output)
    rule = rule_of(COPY)
    assert rule is not None
    record_write(COPY, rule, (target, value), {}, lambda: None)


def _old_values(recipe: Recipe, operands: tuple[Any, ...], target: Handle) -> dict[int, Any]:
    """Copies of the operands that the write may change and whose elements the rule reads: the target, and its views.

    The copies are recorded, so that second derivatives see where the old values came from.
    """
    copies: dict[int, Any] = {}
    whole: Any = None
    for at, operand in enumerate(operands):
        if not _shares(operand, target) or not recipe.reads_operand(at):
            continue
        if operand is not target:
            copies[at] = copy_of(operand)
            continue
        whole = copy_of(target) if whole is None else whole
        copies[at] = whole
    return copies


def _shares(operand: object, target: Handle) -> bool:
    """Whether an operand is a tensor on the target's storage, the target itself included."""
    return isinstance(operand, Handle) and operand.version is target.version


def write_decomposed(op: Mutation, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """Runs an in-place operator without a rule of its own: its base call by call, each recorded, and then a copy.

    G008 where the base has no decomposition either.
    """
    base = op.base
    if base is None or base.decompose_rule is None:
        fail("G008", f"{op.name}: there is no derivative rule for the in-place form", hint="use the functional form")
    _ask_sizes(op, operands, attrs)
    target = op.target_of(operands)
    # What the calls save of the target, or of its views, stays as it was: they read copies.
    read = tuple([_read(operand, target) if _shares(operand, target) else operand for operand in operands])
    return dispatch(COPY, (target, run_decomposition(base, Key.AUTOGRAD, read, attrs)), {})


def _read(operand: Handle, target: Handle) -> Any:
    """A copy of the target, or of another tensor on its storage."""
    return copy_of(shown_by_base(target) if operand is target else operand)


def _ask_sizes(op: Mutation, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> None:
    """Asks what the write asks of sizes, so that its derivative rule finds the answers: which dims are broadcast."""
    types = tuple([_type_of(operand) for operand in op.base_operands(operands)])
    value = types[0] if op.base is None else op.base.infer(types, attrs)
    op.check(op.target_of(operands).form.type, value)


def _type_of(operand: object) -> Any:
    if isinstance(operand, (tuple, list)):
        return tuple([_type_of(part) for part in operand])
    return None if operand is None else form_of_operand(operand).type


class CopySlices(Node):
    """A base after a write to one of its views: the gradient of the view's part goes through the write.

    The first edge is that of the base as it was; the others are those of the write's further operands.
    """

    __slots__ = ("_form", "_inner", "_like", "_steps")

    def __init__(self, base: Handle, view: View, inner: Node, base_edge: Any) -> None:
        super().__init__((base_edge, *inner.edges[1:]))
        self._inner = inner
        self._steps = view.steps
        self._like = share(base) if is_wrapper(base) else None  # only a wrapper knows how others of its class are made
        # In the base's layout, which views by strides, or of merged dims, rely on.
        strides = None if shows_twice(base.form.type) else base.form.strides
        self._form = form_of(tuple(base.form.shape), base.form.dtype, base.form.device, strides)

    @property
    def inner(self) -> Node:
        """The step of the write, as of a tensor of its own."""
        return self._inner

    @property
    def form(self) -> TensorMeta:
        """The base's form."""
        return self._form

    @property
    def steps(self) -> Sequence[Step]:
        """What makes the view of the base."""
        return self._steps

    @property
    def is_of_wrapper(self) -> bool:
        """Whether the base is a tensor of a subclass that holds others."""
        return self._like is not None

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """The base's gradient with the part of the view replaced, then those of the write's operands."""
        return through_write(
            self._whole(gradients[0]),
            gradients[0],
            self._steps,
            lambda part: self._inner.run([part], create_graph, owned),
        )

    def _whole(self, gradient: Any) -> Any:
        """What a gradient is copied to."""
        if self._like is not None and is_wrapper(gradient):
            return OPERATORS["full_like"](self._like, 0)
        return made_for(self._form, gradient)

    @property
    def saves_tensors(self) -> bool:
        """Whether the write saved tensors."""
        return self._inner.saves_tensors

    def release(self) -> None:
        """Frees what the write saved."""
        self._inner.release()

    @property
    def released(self) -> bool:
        """Whether what the write saved is freed."""
        return self._inner.released


def made_for(form: TensorMeta, gradient: Handle) -> Any:
    """A tensor of a form that a gradient is copied to."""
    return allocate(form) if gradient.backing is not None else _without_data(form, gradient)


def through_write(
    whole: Any, gradient: Any, steps: Sequence[Step], inner: Callable[[Any], Sequence[object]]
) -> Sequence[object]:
    """The gradients of a base and of the further operands of a write to one of its views.

    `gradient` is that of the base behind the write. The first result is put into `whole`. `inner` gives the gradients
    of the write from that of the view.
    """
    dispatch(COPY, (whole, gradient), {})
    part = replay(steps, whole)
    results = inner(copy_of(part))
    if results[0] is None:
        dispatch(FILL, (part, 0), {})  # a fill overwrites elements that overlap too
    else:
        dispatch(COPY, (part, results[0]), {})
    return [whole, *results[1:]]


class Overwritten(Node):
    """A view whose elements were all replaced by an output of another node."""

    __slots__ = ()

    def __init__(self, node: Node, output: int) -> None:
        super().__init__((None, (node, output)))

    def run(self, gradients: list[object], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """No gradient for what the view held before; the whole one for the output that replaces it."""
        return [None, gradients[0]]


class Rewriting:
    """New histories of tensors that a call overwrites, to be put in place together with the write."""

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: dict[int, tuple[Handle, Gradient]] = {}

    def add(self, target: Handle, node: Node, output: int) -> None:
        """All elements of `target` become an output of `node`. Of a view, the base gets the history; the view follows.

        Errors: G002 and G006, as `check_write` raises them.
        """
        check_write("a compiled function", target)
        view = target.view_of
        if view is not None:
            base = view.base
            edge = self._edge(base)
            target, node, output = base, CopySlices(base, view, Overwritten(node, output), edge), 0
        before, record = target.gradient, Gradient()
        if before is not None:
            record.grad, record.retained, record.rebases = before.grad, before.retained, before.rebases
            move_retained(target, before, node, output)
        record.node, record.output = node, output
        record.rebases += 1
        self._records[id(target)] = target, record

    def _edge(self, base: Handle) -> tuple[Any, int] | None:
        """Where the gradient of a base goes; an earlier write to another view of it counts."""
        if id(base) in self._records:
            record = self._records[id(base)][1]
            return record.node, record.output
        return edge_of(base) if requires(base) else None

    def attributes(self, views: Sequence[Any]) -> list[Any]:
        """What puts the histories in place: attributes to set, in threes (target, name, value).

        `views` already have the histories of views of what their bases become, so they need not follow these.
        """
        made: list[Any] = []
        for tensor, record in self._records.values():
            made += [tensor, "gradient", record, tensor, "keys", tensor.keys | AUTOGRAD]
        for view in [view_of.view_of for view_of in views]:
            if view is not None and id(view.base) in self._records:
                made += [view, "rebases", self._records[id(view.base)][1].rebases]
        return made


def _without_data(form: TensorMeta, world: Handle) -> Any:
    """Zeros of a form, in a trace or on the device of another tensor. Forms with gaps become row-major."""
    if world.keys & BATCHED:
        return OPERATORS["full_like"](world, 0)
    order = dense_order(form.type.shape, form.strides) or tuple(range(len(form.shape)))
    zeros = world.apply(
        OPERATORS["full"],
        (0,),
        {"size": tuple([form.shape[dim] for dim in order]), "dtype": form.dtype, "device": form.device},
    )
    inverse = tuple([order.index(dim) for dim in range(len(order))])
    return zeros if inverse == tuple(range(len(order))) else OPERATORS["permute"](zeros, inverse)


def copy_of(tensor: Handle) -> Any:
    """A copy with a storage of its own."""
    return OPERATORS["to_dtype"](tensor, tensor.dtype)
