"""In-place and `out=` forms of operators, as operators of their own that every dispatch key sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rushlight.eager.dispatch import dispatch
from rushlight.eager.symbols import unwrap_sizes, wrap_sizes
from rushlight.ir.dtype import DType, Kind
from rushlight.ir.graph import GraphBuilder, Node
from rushlight.ir.type import TensorType
from rushlight.ops.dims import same_shape
from rushlight.ops.record import OPERATORS, Operator
from rushlight.support.errors import fail, require
from rushlight.sym import Size, broadcast_sizes, eq, required
from rushlight.term import Op

T = TypeVar("T")


class Mutation(Op):
    """Writes a value to a tensor: `x.add_(y)`, `add(x, y, out=z)`, `x.copy_(y)`.

    The value is `base` of the base operands; without a base it is the one base operand itself. The target is the
    first operand of an in-place form, which a base takes as its first operand too, and the last one of an `out=` form.
    One that `fills` writes one value everywhere, so that the target's elements may overlap.
    """

    __slots__ = ("base", "fills", "out")

    base: Operator | None
    out: bool
    fills: bool

    def __init__(self, name: str, base: Operator | None, out: bool = False, fills: bool = False) -> None:
        super().__init__(name)
        self.base = base
        self.out = out
        self.fills = fills

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Binds the arguments as the base does, and dispatches; `out` is given by name."""
        if self.base is None:
            return dispatch(self, args, kwargs)
        target = (kwargs.pop("out"),) if self.out else ()
        operands, attrs = self.base.bind(args, kwargs)
        return dispatch(self, (*operands, *target), attrs)

    def target_of(self, operands: Sequence[T]) -> T:
        """The tensor that is written to."""
        return operands[-1] if self.out else operands[0]

    def base_operands(self, operands: tuple[T, ...]) -> tuple[T, ...]:
        """What the value is computed from."""
        if self.out:
            return operands[:-1]
        return operands if self.base is not None else operands[1:]

    def check_dtype(self, target: TensorType, value: TensorType) -> None:
        """D003 where a value's dtype is not converted to the target's."""
        if self.base is not None and not can_cast(value.dtype, target.dtype):
            fail("D003", f"{self.name}: {value.dtype.name} cannot be stored in {target.dtype.name}", target=target)

    def check(self, target: TensorType, value: TensorType) -> None:
        """D003 or S009 where a value of this type cannot be written to the target."""
        self.check_dtype(target, value)
        if self.out:
            fits = same_shape(target.shape, value.shape)
            require(fits, "S009", f"{self.name}: out has another shape", out=target, result=value)
        else:
            fits = len(value.shape) <= len(target.shape) and (
                same_shape(target.shape, value.shape) if self.base is not None else _broadcasts(value, target)
            )
            require(fits, "S009", f"{self.name}: the result does not fit its target", target=target, result=value)


def arguments_of(
    op: Any, operands: tuple[object, ...], attrs: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Operands and attributes as the positional and keyword arguments of a call; sizes are integers."""
    base = op.base if isinstance(op, Mutation) else op
    if base is None:
        return operands, dict(attrs)
    kwargs: dict[str, object] = {}
    if isinstance(op, Mutation) and op.out:
        operands, kwargs["out"] = operands[:-1], operands[-1]
    values = iter(operands)
    args: list[object] = []
    for parameter in base.schema.parameters:
        value = next(values) if parameter.is_operand else wrap_sizes(attrs[parameter.name])
        if parameter.keyword_only:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def bound(
    op: Operator, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[tuple[Any, ...], dict[str, object]]:
    """What `arguments_of` made arguments of: operands, and attributes with sizes as expressions."""
    operands, attrs = op.bind(tuple(args), kwargs)
    return operands, {name: unwrap_sizes(value) for name, value in attrs.items()}


def can_cast(source: DType, target: DType) -> bool:
    """Whether in-place and out= forms convert so: within a kind or to a higher one."""
    return source.kind <= target.kind and not (target.kind is Kind.BOOL and source.kind is not Kind.BOOL)


def _broadcasts(value: TensorType, target: TensorType) -> bool:
    lead = len(target.shape) - len(value.shape)
    pairs = zip(value.shape, target.shape[lead:], strict=True)
    return all(x is y or _becomes(x, y) for x, y in pairs)


def _becomes(x: Size, y: Size) -> bool:
    """Whether a size is broadcast to another one; where symbols leave that open, it is guarded."""
    if isinstance(x, int) and isinstance(y, int):
        return x in (1, y)
    return required(eq(broadcast_sizes(x, y), y))


def computed_value(
    builder: GraphBuilder, mutation: Mutation, operands: tuple[Node, ...], attrs: Mapping[str, object]
) -> Node:
    """In a graph: what a mutation computes. Operands are nodes."""
    return operands[0] if mutation.base is None else builder.apply(mutation.base, operands, attrs)


def written_value(mutation: Mutation, node: Node, target: TensorType) -> Node:
    """In a graph: what a mutation has computed as the target holds it, of the target's dtype and shape."""
    if node.type.device != target.device and not node.shape:  # a number of the CPU's goes along
        node = node.builder.laid_out(node, replace(node.type, device=target.device))
    if node.dtype is not target.dtype or mutation.base is None:
        node = OPERATORS["to_dtype"](node, target.dtype)
    if node.shape != target.shape:
        node = OPERATORS["expand"](node, target.shape)
    return node


COPY = Mutation("copy_", None)
"""`copy_(target, source)`: converts and broadcasts."""

FILL = Mutation("fill_", None, fills=True)
"""`fill_(target, value)` of one value, a number or a tensor without dims: converts."""

_in_place: dict[Operator, Mutation] = {}
_out: dict[Operator, Mutation] = {}


def in_place(base: Operator) -> Mutation:
    """The in-place form of an operator: one object per operator."""
    return _in_place.setdefault(base, Mutation(base.name + "_", base))


def out_form(base: Operator) -> Mutation:
    """The `out=` form of an operator: one object per operator."""
    return _out.setdefault(base, Mutation(base.name + ".out", base, out=True))
