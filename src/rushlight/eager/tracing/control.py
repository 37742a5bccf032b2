"""Control flow in traced programs: a call of an operator of `ops.control`, on graphs of what the functions do.

Its gradient is such a call too, on graphs of the functions' gradients: these are traced with the functions, so a
backward pass asks Python nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rushlight.eager.autograd.history import attach
from rushlight.eager.autograd.node import Node
from rushlight.eager.dispatch import STATE, Scope, call_apart
from rushlight.eager.handle import Handle
from rushlight.eager.pytree import unflatten_tree
from rushlight.eager.symbols import SymBool, SymInt
from rushlight.eager.tracing.body import Body, dense_type, filled
from rushlight.eager.tracing.tracer import Tracer
from rushlight.ir.dtype import bool_, int64
from rushlight.ir.graph import Node as Value
from rushlight.ir.type import TensorType, row_major
from rushlight.ops import OPERATORS, control
from rushlight.support.errors import fail
from rushlight.support.provenance import user_frame
from rushlight.sym import Origin, OriginKind, SizeExpr, eq, free_symbols, statically_known

_RELATIONS = {"==": "eq", "!=": "ne", "<=": "le", ">=": "ge"}


class ControlNode(Node):
    """The node of a call that runs graphs: `backward(gradients)` records the call that makes its gradients."""

    __slots__ = ("_backward", "_name", "_outputs")

    def __init__(
        self, name: str, edges: Sequence[Any], outputs: int, backward: Callable[[list[Any]], Sequence[object]]
    ) -> None:
        super().__init__(edges)
        self._name = name
        self._outputs = outputs
        self._backward = backward

    def name(self) -> str:
        """As it is shown in errors."""
        return self._name

    def run(self, gradients: list[object], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """The gradients at the edges."""
        if create_graph:
            fail("G009", "a compiled function cannot be differentiated twice yet", hint="run it without compile")
        with Scope(grad=False):
            return self._backward([*gradients, *[None] * (self._outputs - len(gradients))])


# What functions take and return.


def condition_tensor(value: object) -> Any:
    """A condition as a tensor of one bool."""
    if isinstance(value, SymBool):
        condition: Any = value.condition
        if not isinstance(condition, bool):
            return OPERATORS[_RELATIONS[condition.relation]](OPERATORS["from_size"](condition.expr), 0)
        value = condition
    if not isinstance(value, Handle):
        return OPERATORS["full"]((), bool(value), dtype=bool_)
    flat = OPERATORS["reshape"](value, ()) if len(value.form.shape) else value
    return flat if value.form.dtype is bool_ else OPERATORS["ne"](flat, 0)


def is_tensor_like(leaf: object) -> bool:
    """Whether a value is a tensor, or an integer, which can become one."""
    return isinstance(leaf, (Handle, SymInt)) or (isinstance(leaf, int) and not isinstance(leaf, bool))


def as_tensor(leaf: object) -> Any:
    """A tensor, or an integer as one; None for other values."""
    if isinstance(leaf, SymInt):
        return OPERATORS["full"]((), OPERATORS["from_size"](leaf.expr), dtype=int64)
    if not is_tensor_like(leaf):
        return None
    return leaf if isinstance(leaf, Handle) else OPERATORS["full"]((), leaf, dtype=int64)


def operand(outer: Tracer, tensor: Handle, type_: TensorType | None = None) -> Value:
    """A tensor's value as a body takes it."""
    return outer.builder.laid_out(outer.node(tensor), dense_type(tensor) if type_ is None else type_)


def gradient_operand(outer: Tracer, gradient: Handle | None, type_: TensorType) -> Value:
    """A gradient's value, or what stands for none."""
    if gradient is None:
        return filled(outer.builder, type_)
    return operand(outer, gradient, row_major(gradient.form.type))


def refuse(message: str, hint: str | None = None, **values: object) -> NoReturn:
    """Raises C033: what functions return does not fit together."""
    shown: dict[str, Any] = {
        name: value if isinstance(value, TensorType) else str(value) for name, value in values.items()
    }
    fail("C033", message, hint=hint, **shown)


# Branches.


def traced_cond(predicate: object, functions: Sequence[Callable[..., object]], operands: Sequence[object]) -> Any:
    """Records both branches, and the call that runs one of them."""
    outer: Tracer = STATE.tracer
    question = operand(outer, condition_tensor(predicate))
    bodies = [Body(outer, "true"), Body(outer, "false")]
    given: list[Handle] = []
    for body, function in zip(bodies, functions, strict=True):
        body.trace(lambda _, function=function: call_apart(function, *operands), as_tensor, given=given)
        given = body.captured
    types, sizes = _with_unbacked_outputs(
        outer, _pairs(bodies), bodies[0].unbacked_symbols() | bodies[1].unbacked_symbols()
    )
    branches = tuple([body.inner(given, body.results) for body in bodies])
    values = tuple([operand(outer, tensor) for tensor in given])
    attrs = {"branches": branches, "types": types, "sizes": sizes}
    results = outer.record(control.cond, (question, values), attrs)
    if any(body.edges for body in bodies):
        _attach_branches(outer, bodies, given, (question, values), results)
    return _returned(outer, bodies, results)


def _pairs(bodies: Sequence[Body]) -> list[tuple[TensorType, TensorType]]:
    """The types of what both branches return; C033 where it does not fit together."""
    one, other = bodies
    if one.structure != other.structure:
        refuse("cond: the branches return different structures", true=one.structure, false=other.structure)
    for first, second in zip(one.leaves, other.leaves, strict=True):
        like = is_tensor_like(first)
        if like is not is_tensor_like(second) or not (like or (type(first) is type(second) and first == second)):
            refuse("cond: the branches return different values that are no tensors", true=first, false=second)
    pairs = [(a.type, b.type) for a, b in zip(one.results, other.results, strict=True)]
    for a, b in pairs:
        if a.dtype is not b.dtype or a.ndim != b.ndim or a.device != b.device:
            hint = "let both have one dtype and number of dims; sizes may differ"
            refuse("cond: the branches return tensors that differ in more than sizes", hint, true=a, false=b)
    return pairs


def _with_unbacked_outputs(
    outer: Tracer, pairs: Sequence[tuple[TensorType, TensorType]], fresh: set[SizeExpr]
) -> tuple[tuple[TensorType, ...], tuple[SizeExpr, ...]]:
    """The types of results, and the sizes in them that only the branch tells."""
    unbacked_symbols: list[SizeExpr] = []
    types: list[TensorType] = []
    for one, other in pairs:
        shape: list[Any] = []
        for a, b in zip(one.shape, other.shape, strict=True):
            same = a is b or statically_known(eq(a, b))
            if not same or not fresh.isdisjoint(() if isinstance(a, int) else free_symbols(a)):
                unbacked_symbols.append(
                    outer.scope.symbol(source=Origin("a size of cond()", OriginKind.VALUE, user_frame()))
                )
                a = unbacked_symbols[-1]
            shape.append(a)
        types.append(TensorType(tuple(shape), one.dtype, one.device, weak=one.weak and other.weak))
    return tuple(types), tuple(unbacked_symbols)


def _returned(outer: Tracer, bodies: Sequence[Body], results: Sequence[Any]) -> Any:
    left = iter(results)
    leaves: list[Any] = []
    for first, second in zip(bodies[0].leaves, bodies[1].leaves, strict=True):
        following = next(left) if is_tensor_like(first) else first
        if isinstance(first, Handle) or isinstance(second, Handle) or not is_tensor_like(first):
            leaves.append(following)
        else:
            same = type(first) is int and type(second) is int and first == second
            leaves.append(first if same else SymInt(outer.size(following)))
    return unflatten_tree(bodies[0].structure, leaves)


def _attach_branches(
    outer: Tracer,
    bodies: Sequence[Body],
    given: list[Handle],
    operands: tuple[Value, Any],
    results: Sequence[Handle],
) -> None:
    edges = {key: edge for body in bodies for key, edge in body.edges.items()}
    valid = {key: type_ for body in bodies for key, type_ in body.types.items()}
    keys = [key for key in edges if any(key in body.gradients for body in bodies)]
    places = sorted({position for body in bodies for position in body.tangents})
    types = tuple([valid[key] for key in keys])
    branches: list[Any] = []
    for body in bodies:
        tangents = [body.tangents.get(position, row_major(body.results[position].type)) for position in places]
        branches.append(body.inner([*given, *tangents], [body.gradients.get(key) for key in keys], types))

    def backward(arrived: list[Value]) -> Sequence[object]:
        attrs = {"branches": tuple(branches), "types": types, "sizes": ()}
        return outer.record(control.cond, (operands[0], (*operands[1], *arrived)), attrs)

    attach_backward(outer, "CondBackward", [edges[key] for key in keys], results, places, backward)


def attach_backward(
    outer: Tracer,
    name: str,
    edges: Sequence[object],
    results: Sequence[Handle],
    places: Sequence[int],
    backward: Callable[[list[Value]], Sequence[object]],
) -> None:
    """Gives the results at some places a history: `backward` records the call on what arrives at them."""
    types = [row_major(results[position].form.type) for position in places]  # the results hold the node

    def differentiate(gradients: list[Handle | None]) -> Sequence[object]:
        pairs = zip(places, types, strict=True)
        return backward([gradient_operand(outer, gradients[position], type_) for position, type_ in pairs])

    node = ControlNode(name, edges, len(results), differentiate)
    for position in places:
        attach(results[position], node, position)
