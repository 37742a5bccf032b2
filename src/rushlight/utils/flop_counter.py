"""Counting the floating-point operations of a program, by operator and by module.

A multiplication with its addition is two operations. Products, convolutions and attention are counted, which is what
PyTorch's counter counts; operators that consist of others are counted by these.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

from rushlight.eager.execution.decompose import as_node, decomposition
from rushlight.eager.handle import Handle
from rushlight.eager.interception import TorchDispatchMode
from rushlight.eager.mutation import Mutation, arguments_of, bound
from rushlight.eager.override.operator_function import OperatorFunction, function_for
from rushlight.ir.graph import Call, GraphBuilder
from rushlight.ir.value import map_operands
from rushlight.nn import Module
from rushlight.ops.record import OPERATORS, Operator
from rushlight.support.errors import require

__all__ = ["FlopCounterMode", "register_flop_formula"]

Formula = Callable[..., int]
Shape = Sequence[int]
_ROOT = "Global"

_formulas: dict[object, Formula] = {}


def register_flop_formula(targets: object, get_raw: bool = False) -> Callable[[Formula], Formula]:
    """Return a decorator that registers how many operations calls of an operator, or of several, take.

    The formula is called with the call's arguments, shapes in place of tensors, and `out_shape`; with `get_raw` it is
    called with tensors themselves and `out_val`.

    >>> @register_flop_formula(rl.ops.aten.mul)
    ... def mul_flop(left, right, *, out_shape, **kwargs): return math.prod(out_shape)
    """

    def register(formula: Formula) -> Formula:
        own = formula if get_raw else partial(_with_shapes, formula)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            _formulas[target] = own
        return formula

    return register


def _with_shapes(formula: Formula, *args: object, out_val: object, **kwargs: object) -> int:
    named = {name: _shapes(value) for name, value in kwargs.items()}
    return formula(*map(_shapes, args), out_shape=_shapes(out_val), **named)


def _shapes(value: object) -> object:
    if isinstance(value, Handle):
        return tuple(value.shape)
    if isinstance(value, Call):
        return tuple(map(int, value.type.shape)) if hasattr(value.type, "shape") else None
    return [*map(_shapes, value)] if isinstance(value, (tuple, list)) else value


def _operators(*names: str) -> list[OperatorFunction]:
    return [function_for(OPERATORS[name]) for name in names]


@register_flop_formula(_operators("matmul", "linear", "mv", "dot"))
def _of_product(left: Shape, *rest: object, out_shape: Shape, **kwargs: object) -> int:
    """A multiplication and an addition for each element of the result and each place of the sum."""
    return 2 * math.prod(out_shape) * left[-1]


@register_flop_formula(_operators("convolution"))
def _of_convolution(taken: Shape, weight: Shape, *rest: object, out_shape: Shape, **kwargs: object) -> int:
    """Each element of what moves over the image meets all of a filter."""
    return 2 * math.prod(weight[1:]) * math.prod(out_shape)


@register_flop_formula(_operators("convolution_input"))
def _of_transposed(taken: Shape, weight: Shape, *rest: object, **kwargs: object) -> int:
    return 2 * math.prod(taken) * math.prod(weight[1:])


@register_flop_formula(_operators("convolution_weight"))
def _of_filters(gradient: Shape, *rest: object, out_shape: Shape, **kwargs: object) -> int:
    return 2 * math.prod(gradient) * math.prod(out_shape[1:])


@register_flop_formula(_operators("attend"))
def _of_attention(query: Shape, key: Shape, value: Shape, *rest: object, **kwargs: object) -> int:
    """Two products; what a mask hides is counted too."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


class FlopCounterMode(TorchDispatchMode):
    """Counts the operations of what runs within it, backward passes included.

    `mods` is a module, or several: what their parts' forward passes take is counted by name as well; all is counted
    under "Global".
    `custom_mapping` has formulas for operators, as `register_flop_formula` takes them. With `display` a table down to
    `depth` is printed at the end. A compiled function runs operator by operator within it.

    >>> with FlopCounterMode(model, display=False) as counter:
    ...     model(x).sum().backward()
    >>> counter.get_total_flops()
    """

    def __init__(
        self,
        mods: Module | Sequence[Module] | None = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: Mapping[object, Formula] | None = None,
    ) -> None:
        self.depth, self.display = depth, display
        self._modules = [mods] if isinstance(mods, Module) else list(mods or ())
        known = all(isinstance(one, Module) for one in self._modules)
        require(known, "A001", "FlopCounterMode: mods are modules")
        own = {target: partial(_with_shapes, formula) for target, formula in (custom_mapping or {}).items()}
        self._formulas: Mapping[object, Formula] = {**_formulas, **own}
        self.flop_counts: dict[str, dict[object, int]] = {}
        self._within: list[str] = []
        self._hooks = ExitStack()

    def get_total_flops(self) -> int:
        """Return how many operations there were."""
        return sum(self.flop_counts.get(_ROOT, {}).values())

    def get_flop_counts(self) -> dict[str, dict[object, int]]:
        """Return operations by operator for "Global" and each module; a module's hold those of its parts."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return a table of modules and their operators."""
        most = self.depth if depth is None else depth
        rows = [("Module", "FLOP", "% Total")]
        total = max(self.get_total_flops(), 1)
        for name, counts in self.flop_counts.items():
            level = 0 if name == _ROOT else name.count(".") + 1
            if level > most:
                continue
            rows.append(_row("  " * level + name, sum(counts.values()), total))
            rows += [_row("  " * level + f" - aten.{_name(one)}", count, total) for one, count in counts.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"{name:<{widths[0]}}  {count:>{widths[1]}}  {share:>{widths[2]}}" for name, count, share in rows]
        return "\n".join([lines[0], "  ".join(["-" * width for width in widths]), *lines[1:]])

    def __enter__(self) -> Self:
        self.flop_counts = {_ROOT: {}}
        for root in self._modules:
            for name, module in root.named_modules():
                self._follow(f"{type(root).__name__}.{name}".rstrip("."), module)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._hooks.close()
        self._within.clear()
        if self.display:
            sys.stdout.write(self.get_table() + "\n")

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> Any:
        """Run an operator, and count it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        for target, count in self._counted(func, args, kwargs, result):
            for name in dict.fromkeys([_ROOT, *self._within]):
                counts = self.flop_counts.setdefault(name, {})
                counts[target] = counts.get(target, 0) + count
        return result

    def _counted(
        self, func: Any, args: tuple[object, ...], kwargs: Mapping[str, object], result: object
    ) -> Iterator[tuple[object, int]]:
        operator = getattr(func, "operator", None)
        if isinstance(operator, Mutation) and func not in self._formulas and operator.base is not None:
            operator, kwargs = operator.base, {name: one for name, one in kwargs.items() if name != "out"}
            func = function_for(operator)
        formula = self._formulas.get(func) or self._formulas.get(func.overloadpacket)
        if formula is not None:
            yield func, formula(*args, **kwargs, out_val=result)
        elif isinstance(operator, Operator) and operator.decompose_rule is not None:
            operands, attrs = bound(operator, args, kwargs)
            for call in decomposition(operator, operands, attrs).calls:
                yield from self._of_call(call)

    def _of_call(self, call: Call) -> Iterator[tuple[object, int]]:
        """What a call in a graph takes, or the calls that it consists of."""
        operator = call.op
        if not isinstance(operator, Operator):
            return
        func = function_for(operator)
        formula = self._formulas.get(func)
        if formula is not None:
            args, kwargs = arguments_of(operator, call.operands, dict(call.attrs))
            yield func, formula(*args, **kwargs, out_val=call)
        elif operator.decompose_rule is not None:
            for part in _parts(call, operator):
                yield from self._of_call(part)

    def _follow(self, name: str, module: Module) -> None:
        """Count under this name while the module's forward or backward runs."""

        def enter(*_: object) -> None:
            self._within.append(name)

        def leave(*_: object) -> None:
            self._within.remove(name)

        for handle in (
            module.register_forward_pre_hook(enter, prepend=True),
            module.register_forward_hook(leave, always_call=True),
        ):
            self._hooks.callback(handle.remove)


def _row(name: str, count: int, total: int) -> tuple[str, str, str]:
    return name, f"{count:,}", f"{count / total:.2%}"


def _name(target: object) -> str:
    return getattr(target, "__name__", str(target))


def _parts(call: Call, operator: Operator) -> Sequence[Call]:
    """The calls that a call of a composite consists of."""
    builder, places = GraphBuilder(operator.name), itertools.count()
    nodes = map_operands(call.operands, lambda one: builder.parameter(f"p{next(places)}", one.type))
    assert operator.decompose_rule is not None
    result = operator.decompose_rule(**operator.named(nodes, dict(call.attrs)))
    outputs = result if isinstance(result, tuple) else (result,)
    return builder.graph([as_node(builder, one) for one in outputs]).calls
