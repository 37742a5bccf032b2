"""Kernels: functions of tiles, as operators.

A kernel has a record like any operator. It is inlined: where it is recorded in a graph, the program's function runs
once, on tensors without data, and the calls that it makes are recorded in its place. So the text of a graph says all
that a kernel does, its calls fuse with those around them, and gradients, exported files and other devices see
operators that they know.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from rushlight.eager.dispatch import STATE, call_function
from rushlight.eager.handle import Handle
from rushlight.eager.pytree import Structure, flatten_tree, unflatten_tree
from rushlight.ir.graph import Node
from rushlight.ops.record import Declaration, Fact, Operator
from rushlight.ops.schema import signature_of
from rushlight.support.errors import fail, require
from rushlight.term import attr_key
from rushlight.tile import tuning
from rushlight.tile.tracing import traced

if TYPE_CHECKING:
    from rushlight.build.native import Chooser
    from rushlight.ir.choice import AxisSpace

_NAMES = tuple([name for name in functools.WRAPPER_ASSIGNMENTS if name != "__module__"])  # the class is ours
_SCHEMA = "{name}(Tensor[] operands, *, any constants) -> Tensor[]"


class Constants:
    """Nested values but for the tensors among their leaves: of a call's arguments, or of what a function returned.

    A kernel has one object for equal arguments, so they are compared by identity.
    """

    __slots__ = ("leaves", "structure", "tensors")

    def __init__(self, structure: Structure, leaves: Sequence[object], tensors: tuple[int, ...]) -> None:
        self.structure = structure
        self.leaves = leaves
        self.tensors = tensors

    def filled(self, tensors: Iterable[object]) -> Any:
        """The values with these tensors: for arguments the positional ones, and the named ones."""
        leaves = list(self.leaves)
        for position, tensor in zip(self.tensors, tensors, strict=True):
            leaves[position] = tensor
        return unflatten_tree(self.structure, leaves)


class KernelOperator(Operator):
    """The record of a kernel; `chooser` chooses the tiles and blocks of its eager code."""

    __slots__ = ("chooser",)

    chooser: Any


class Outcome(NamedTuple):
    """What a function returned, beside tensors, and which of its operands it wrote to."""

    constants: Constants
    written: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it is one tensor."""
        return self.constants.structure.is_leaf() and not self.written


class Kernel:
    """A function of tiles that is called like an operator. `kernel` makes it."""

    def __init__(self, function: Callable[..., object], tune: float | None = None) -> None:
        functools.update_wrapper(self, function, _NAMES, ())
        self.function = function
        self.name = getattr(function, "__name__", "kernel")
        self._derivative: Callable[..., Any] | None = None
        self.budget_s = tune
        self.spaces: list[AxisSpace] = []  # of the blocks of its loops, since it was last traced
        self.operator = self.operator_with(tuning.Declared(self))
        self.signature = inspect.signature(function)
        self._most = len(self.signature.parameters)
        self._positions = tuple(range(self._most))
        self._constants: dict[object, Constants] = {}
        self._outcomes: dict[object, Outcome] = {}

    def operator_with(self, chooser: Chooser) -> KernelOperator:
        """A record of the kernel whose eager code has the tiles and blocks that are chosen."""
        schema = _SCHEMA.format(name=f"tile::{self.name}")
        operator = KernelOperator(Declaration(schema, self.__doc__ or "", Fact.INLINED, "all", None, ""), __name__)
        operator.signature = signature_of(schema)
        operator.kernels = {}
        operator.decompose_rule = self._consists_of
        operator.chooser = chooser
        if self._derivative is not None:
            operator.vjp(self._derivative)
        return operator

    def vjp(self, rule: Callable[..., object]) -> Callable[..., object]:
        """Gives the kernel a derivative: a function of tiles, `rule(g, *args)`, with one gradient per tensor, or None.

        `g` is the gradient of the result, or a tuple of those of all results, None where there is none. Without a rule
        gradients follow from the calls that the kernel makes.
        """

        def gradients(g: Any, operands: tuple[Any, ...], constants: Constants) -> tuple[tuple[Any, ...]]:
            given = g if isinstance(g, tuple) else (g,)
            known = [one for one in given if one is not None]

            def arguments(tensors: Sequence[object]) -> Any:
                left = iter(tensors)
                values = tuple([None if one is None else next(left) for one in given])
                args, kwargs = constants.filled(left)
                return (values[0] if len(values) == 1 else values, *args), kwargs

            found = traced(f"{self.name}.vjp", rule, [*known, *operands], arguments).results
            result = found if isinstance(found, tuple) else (found,)
            message = f"{self.name}: the derivative gives a gradient for each tensor"
            require(len(result) == len(operands), "L004", message, gradients=len(result), tensors=len(operands))
            return (result,)

        self._derivative = gradients
        self.operator = self.operator_with(self.operator.chooser)
        return rule

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Runs the kernel on tensors; other arguments are constants of its code."""
        if self.budget_s is not None and STATE.tracer is None:
            budget, self.budget_s = self.budget_s, None
            tuning.tune(self, *args, budget=budget, **kwargs)
        operands, constants = self._taken(args, kwargs)
        results = call_function(self.operator, (operands,), {"constants": constants})
        outcome = self._outcomes[_forms(operands, constants)]
        if outcome.is_plain:
            return results[0]
        made = len(outcome.constants.tensors)
        for position, value in zip(outcome.written, results[made:], strict=True):
            operands[position].copy_(value)
        return outcome.constants.filled(results[:made])

    def _taken(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[tuple[Any, ...], Constants]:
        """The tensors among the arguments, and the rest."""
        if not kwargs and len(args) == self._most and all(isinstance(arg, Handle) for arg in args):
            leaves, structure, positions = args, None, self._positions
        else:
            bound = self._bound(args, kwargs)
            leaves, structure = flatten_tree((bound.args, bound.kwargs))
            positions = tuple([at for at, leaf in enumerate(leaves) if isinstance(leaf, Handle)])
            require(len(positions) > 0, "L004", f"{self.name}: a kernel needs a tensor among its arguments")
        others = [None if isinstance(leaf, Handle) else leaf for leaf in leaves]
        key = (structure, positions, *[attr_key(leaf) for leaf in others])
        try:
            constants = self._constants.get(key)
        except TypeError:
            hint = "pass tensors, as rl.from_numpy gives them, and constants that can be hashed"
            fail("L004", f"{self.name}: a constant argument cannot be hashed", hint=hint, constants=str(others))
        if constants is None:
            if structure is None:
                _, structure = flatten_tree((args, {}))
            constants = self._constants.setdefault(key, Constants(structure, others, positions))
        return tuple([leaves[at] for at in positions]), constants

    def tensors(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Any, ...]:
        """The tensors among arguments."""
        return self._taken(args, kwargs)[0]

    def _bound(self, args: tuple[object, ...], kwargs: dict[str, object]) -> inspect.BoundArguments:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as problem:
            fail("L004", f"{self.name}: {problem}")
        bound.apply_defaults()
        return bound

    def _consists_of(self, operands: tuple[Any, ...], constants: Constants) -> tuple[Any, ...]:
        """The calls that the function makes on values."""
        results, written, self.spaces[:] = traced(self.name, self.function, operands, constants.filled)
        leaves, structure = flatten_tree(results)
        found = tuple([at for at, leaf in enumerate(leaves) if isinstance(leaf, Node)])
        require(len(found) + len(written) > 0, "L004", f"{self.name}: a kernel returns, or writes to, a tensor")
        others = [None if isinstance(leaf, Node) else leaf for leaf in leaves]
        returned = Constants(structure, others, found)
        self._outcomes[_forms(operands, constants)] = Outcome(returned, tuple(written))
        return (*[leaves[at] for at in found], *written.values())

    def __repr__(self) -> str:
        return f"<tile kernel {self.name}>"


def _forms(operands: Iterable[Any], constants: Constants) -> object:
    """What decides which values a function returns."""
    return constants, *[(operand.dtype, len(operand.shape)) for operand in operands]


@overload
def kernel(function: Callable[..., object], /) -> Kernel: ...


@overload
def kernel(*, tune: float | None = None) -> Callable[[Callable[..., object]], Kernel]: ...


def kernel(function: Callable[..., object] | None = None, /, *, tune: float | None = None) -> Any:
    """Makes a function of tiles a kernel. With `tune` its first call searches for fast blocks for so many seconds.

    >>> @rl.tile.kernel
    ... def add(x, y):
    ...     out = rl.empty_like(x)
    ...     for i in tile(x.shape[0]):
    ...         out[i] = x[i] + y[i]
    ...     return out
    """
    return Kernel(function) if function is not None else lambda function: Kernel(function, tune)
