"""Control flow that a compiled function keeps: `cond`, `while_loop`, `scan` and `map`, as PyTorch has them.

Eagerly they are Python's `if` and `for`. What one of them reads gets one gradient from all of it, the sum of those
from its parts, so that a compiled function adds in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rushlight.eager.arguments import is_tensor
from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.driver import Tape
from rushlight.eager.autograd.history import attach, requires
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.autograd.node import Node, mark
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, call_apart, call_user
from rushlight.eager.handle import BATCHED, Handle, allocate, share
from rushlight.eager.pytree import Leaf, Structure, flatten_tree, leaves_like, map_tree, unflatten_tree
from rushlight.eager.symbols import SymBool, SymInt
from rushlight.eager.tensor_meta import form_of
from rushlight.eager.tracing import Tracer
from rushlight.eager.tracing.body import refuse_random
from rushlight.eager.tracing.control import refuse, traced_cond
from rushlight.eager.tracing.loops import agree, mark_endless, require_carried, traced_scan
from rushlight.eager.tracing.places import moved, of_each_place, scan_of_places, while_of_places, with_places
from rushlight.ir.graph import GraphBuilder
from rushlight.ops import OPERATORS
from rushlight.ops.dims import wrap_dim
from rushlight.support.errors import fail, require
from rushlight.sym import Scope


class TogetherNode(Node):
    """The node of all that a function did: a part of the tape that is run as one."""

    __slots__ = ("_tape",)

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape.edges)
        self._tape: Tape | None = tape

    def name(self) -> str:
        """As it is shown in errors."""
        return "ControlBackward"

    def run(self, gradients: list[object], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """The gradients at the edges."""
        if self._tape is None:
            fail("G001", f"backward: {self.name()} was run before, and what it saved is freed", frame=self.frame)
        given = [*gradients, *[None] * (len(self._tape.roots) - len(gradients))]
        result, own = self._tape.gradients(given, (), create_graph, create_graph or STATE.engaged.keep)
        owned.update(own)
        return result

    @property
    def saves_tensors(self) -> bool:
        """True: it runs once."""
        return True

    @property
    def released(self) -> bool:
        """Whether a backward pass has freed what it saved."""
        return self._tape is None

    def release(self) -> None:
        """Lets go of the tape."""
        self._tape = None


def together(function: Callable[..., object], *arguments: object) -> Any:
    """What a function returns, with one node for all that it did."""
    if not STATE.grad:
        return call_user(function, *arguments)
    since = mark()
    leaves, structure = flatten_tree(call_user(function, *arguments))
    made = {id(leaf): leaf for leaf in leaves if _was_made(leaf, since)}
    if not made:
        return unflatten_tree(structure, leaves)
    tape = Tape(list(made.values()), since)
    node = TogetherNode(tape)
    shown: dict[int, Any] = {}
    for position, (key, leaf) in enumerate(made.items()):
        shown[key] = share(leaf)
        attach(shown[key], node, position)
    return unflatten_tree(structure, [shown.get(id(leaf), leaf) for leaf in leaves])


def _was_made(leaf: object, since: int) -> bool:
    if not isinstance(leaf, Handle) or leaf.gradient is None or leaf.view_of is not None:
        return False
    return leaf.gradient.node is not None and leaf.gradient.node.sequence >= since


@checked
def cond(pred: Any, true_fn: Callable[..., object], false_fn: Callable[..., object], operands: Any = ()) -> Any:
    """`true_fn(*operands)` where `pred` is true, else `false_fn(*operands)`.

    `pred` is a bool, or a tensor of one bool. In a compiled function both are traced, and the one that is asked for
    runs. They return tensors and integers in tuples, lists and dicts, with the same structure, dtypes and numbers of
    dims; where sizes differ, the result's size is one that only the run tells. They may read what they find around
    them, but not write to it, nor draw random numbers. Errors: C031, C032, C033.
    """
    require(isinstance(operands, (tuple, list)), "A001", "cond: operands is a tuple or list", operands=operands)
    plain = isinstance(pred, (bool, int, float, SymBool, SymInt))
    require(plain or isinstance(pred, Handle), "A001", "cond: the predicate is no bool", predicate=pred)
    if not plain:
        one = all(size == 1 for size in pred.form.shape)
        require(one, "A001", "cond: the predicate is a bool, or a tensor of one", predicate=pred)
    if isinstance(pred, Handle) and pred.keys & BATCHED:
        return _chosen_at_each_place(pred, call_user(true_fn, *operands), call_user(false_fn, *operands))
    if STATE.tracer is not None and (isinstance(pred, SymBool) or is_tensor(pred)):
        if not STATE.maps:
            return traced_cond(pred, (true_fn, false_fn), operands)
        branches = [_with_places(function) for function in (true_fn, false_fn)]
        return of_each_place(traced_cond(pred, branches, operands))
    return together(true_fn if pred else false_fn, *operands)


def _with_places(function: Callable[..., object]) -> Callable[..., object]:
    return lambda *operands: with_places(call_user(function, *operands))


def _chosen_at_each_place(pred: Handle, chosen: object, other: object) -> Any:
    """Inside `vmap`: of what two branches return, what the predicate of each place says."""
    leaves, structure = flatten_tree(chosen)
    others = leaves_like(other, structure)
    if others is None:
        refuse("cond: the branches return other structures", true=structure, false=flatten_tree(other)[1])
    pred = OPERATORS["reshape"](pred, ())
    return unflatten_tree(structure, [_selected(pred, one, two) for one, two in zip(leaves, others, strict=True)])


def _selected(pred: Handle, one: object, two: object) -> object:
    if isinstance(one, Handle) and isinstance(two, Handle):
        if one.dtype is not two.dtype:
            refuse("cond: the branches return other dtypes", true=one, false=two)
        return OPERATORS["where"](pred, one, two)
    if one != two:
        refuse("cond: inside vmap branches return tensors, or the same of other kinds", true=one, false=two)
    return one


def _unfolded(outcome: object) -> tuple[Any, Any]:
    if not isinstance(outcome, (tuple, list)) or len(outcome) != 2:
        fail("A001", "scan: the function returns what it carries, and an output", returned=type(outcome).__name__)
    return outcome[0], outcome[1]


def _carried_leaves(op: str, value: object, structure: Structure) -> list[Any]:
    leaves = leaves_like(value, structure)
    if leaves is None:
        refuse(
            f"{op}: the body returns what it carries with another structure",
            given=structure,
            returned=flatten_tree(value)[1],
        )
    return leaves


def _require_tensors(op: str, leaves: Sequence[object]) -> None:
    for leaf in leaves:
        require(isinstance(leaf, Handle), "A001", f"{op}: there is something that is no tensor", value=leaf)


@checked
def while_loop(cond_fn: Callable[..., object], body_fn: Callable[..., object], carried_inputs: Any) -> Any:
    """Replaces `carried_inputs` by `body_fn(*carried_inputs)` while `cond_fn(*carried_inputs)` is true.

    They are tensors and integers in tuples, lists and dicts; their structure, dtypes and shapes stay as they are. What
    the functions may do is what those of `cond` may. The number of steps is not known before, and so there are no
    gradients. Errors: C031, C032, C033, G014.
    """
    require(isinstance(carried_inputs, (tuple, list)), "A001", "while_loop: carried_inputs is a tuple or list")
    leaves, structure = flatten_tree(tuple(carried_inputs))
    for leaf in leaves:
        fits = isinstance(leaf, (Handle, SymInt, int)) and not isinstance(leaf, bool)
        require(fits, "A001", "while_loop: what is carried is neither a tensor nor an integer", value=leaf)

    def following(leaves: list[object]) -> list[Any]:
        outcome = call_apart(body_fn, *unflatten_tree(structure, leaves))
        return _carried_leaves("while_loop", tuple(outcome) if isinstance(outcome, list) else outcome, structure)

    def goes_on(leaves: list[object]) -> Any:
        return call_apart(cond_fn, *unflatten_tree(structure, leaves))

    if STATE.tracer is not None:
        return unflatten_tree(structure, while_of_places(goes_on, following, leaves))
    types = [leaf.form.type if isinstance(leaf, Handle) else None for leaf in leaves]
    since = mark()
    while goes_on(leaves):
        leaves = following(leaves)
        for type_, leaf in zip(types, leaves, strict=True):
            if type_ is not None:
                require_carried("while_loop", type_, leaf.form.type if isinstance(leaf, Handle) else leaf)
    made = [share(leaf) if _was_made(leaf, since) else leaf for leaf in leaves]
    if STATE.grad:
        mark_endless([one for one, leaf in zip(made, leaves, strict=True) if one is not leaf], leaves)
    return unflatten_tree(structure, made)


@checked
def scan(
    combine_fn: Callable[[Any, Any], object], init: object, xs: object, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """Carries a value along `xs`: `carry, y = combine_fn(carry, x)` for each slice x of `dim`, or `reverse`.

    Returns the last carry, and the ys stacked along `dim` in the order of the slices, or along the first dim where they
    have fewer dims. `init`, `xs` and the ys are tensors in tuples, lists and dicts; a carry keeps its structure, dtypes
    and shapes. In a compiled function the body is traced once, for any number of slices. What it may do is what the
    functions of `cond` may. Errors: C031, C032, C033.
    """
    carries, structure = flatten_tree(init)
    inputs, slices = flatten_tree(xs)
    _require_tensors("scan", [*carries, *inputs])
    require(bool(inputs), "A001", "scan: there is nothing to go along")
    dim = wrap_dim(dim, len(inputs[0].form.shape), "scan")
    inputs = [moved(x, dim, 0) for x in inputs]
    length = inputs[0].form.shape[0]
    for x in inputs:
        require(agree(x.form.shape[0], length), "S014", "scan: the numbers of slices differ", one=inputs[0], other=x)

    def step(carries: list[object], parts: list[object]) -> tuple[list[Any], Any]:
        outcome = call_apart(combine_fn, unflatten_tree(structure, carries), unflatten_tree(slices, parts))
        following, outputs = _unfolded(outcome)
        return _carried_leaves("scan", following, structure), outputs

    if STATE.tracer is not None or not length:
        run = partial(traced_or_empty, length=length, reverse=reverse)
        carries, outputs = scan_of_places(run, step, carries, inputs)
    else:
        last, outputs = together(_python_scan, combine_fn, init, inputs, (structure, slices), reverse)
        return last, outputs if dim == 0 else _stacked_along(dim, outputs)
    return unflatten_tree(structure, carries), _stacked_along(dim, outputs)


def _stacked_along(dim: int, outputs: object) -> Any:
    """Outputs with the dim of the slices at its place, of those that have as many dims."""
    return map_tree(lambda y: moved(y, 0, dim) if dim < len(y.form.shape) else y, outputs)


@checked
def map(f: Callable[..., object], xs: object, *args: object) -> Any:
    """`f(x, *args)` of each slice x of the first dim of `xs`, stacked: tensors in tuples, lists and dicts.

    In a compiled function `f` is traced once. What it may do is what the functions of `cond` may.
    """
    return scan(lambda carry, x: (carry, call_apart(f, x, *args)), (), xs)[1]


def _python_scan(
    combine: Callable[[Any, Any], object],
    carry: Any,
    inputs: list[object],
    structures: tuple[Structure, Structure],
    reverse: bool,
) -> tuple[Any, Any]:
    carried, slices = structures
    leaves = flatten_tree(carry)[0]
    types = [leaf.form for leaf in leaves]
    flat = carry.__class__ is tuple and all(element is leaf for element, leaf in zip(carry, leaves, strict=False))
    rows = list(zip(*[OPERATORS["unbind"](x, 0) for x in inputs], strict=True))
    stacked: list[list[Any]] = []
    structure: Structure | None = None
    for row in reversed(rows) if reverse else rows:
        outcome = combine(carry, row[0] if isinstance(slices, Leaf) else unflatten_tree(slices, row))
        carry, output = _unfolded(outcome)
        leaves = carry
        if not flat or carry.__class__ is not tuple or [getattr(element, "form", None) for element in carry] != types:
            leaves = _carried_leaves("scan", carry, carried)
            for form, leaf in zip(types, leaves, strict=True):
                require_carried("scan", form.type, leaf.form.type if isinstance(leaf, Handle) else leaf)
        outputs = None if structure is None else leaves_like(output, structure)
        if outputs is None:
            outputs, structure = _first_outputs(output, structure)
        stacked.append(_apart(outputs, leaves) if STATE.grad else outputs)
    assert structure is not None
    columns = zip(*(reversed(stacked) if reverse else stacked), strict=True)
    return carry, unflatten_tree(structure, [OPERATORS["stack"](list(column)) for column in columns])


def _first_outputs(output: object, before: Structure | None) -> tuple[list[Any], Structure]:
    outputs, structure = flatten_tree(output)
    if before is not None:
        refuse("scan: an output has another structure than the one before", before=before, output=structure)
    _require_tensors("scan", outputs)
    return outputs, structure


class PassedNode(Node):
    """The node of a value that a step gives twice: its gradients meet where the step ends."""

    __slots__ = ()

    def run(self, gradients: list[object], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """The gradient as it is."""
        return gradients


def _apart(outputs: list[Any], carries: list[Any]) -> list[Any]:
    """Outputs of a step of which none has its place on the tape in common with what is carried on."""
    parts: list[Any] = []
    for output in outputs:
        if any(output is carry for carry in carries) and requires(output):
            edge = edge_of(output)
            output = share(output)
            attach(output, PassedNode([edge], located=False), 0)
        parts.append(output)
    return parts


def traced_or_empty(
    step: Callable[[list[Any], list[Any]], Any],
    carries: list[object],
    inputs: list[object],
    length: Any,
    reverse: bool,
) -> tuple[list[Any], Any]:
    """The scan of a traced program, or an eager scan of no slices.

    Without a slice only a trace of the body tells the shapes and dtypes of the outputs.
    """
    if STATE.tracer is not None:
        return traced_scan(step, carries, inputs, length, reverse)
    tracer = Tracer(GraphBuilder(), Scope(), lambda tensor: tensor.form.type, refuse_random)
    try:
        with tracer.active(), no_grad():
            _, outputs = traced_scan(step, carries, inputs, length, reverse)
            forms = map_tree(lambda y: form_of(tuple(y.form.shape), y.form.dtype, y.form.device), outputs)
    finally:
        tracer.close()
    return carries, map_tree(allocate, forms)
