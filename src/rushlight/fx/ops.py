"""Operators as functions of graphs: `rl.fx.ops.matmul` is what a node of a compiled graph calls.

Each has the name, the parameters and the defaults of its schema (`rushlight ops explain NAME`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.eager.composite.sequences import empty_strided
from rushlight.eager.handle import Handle
from rushlight.eager.override.answering import answer, relevant
from rushlight.fx.node import Argument
from rushlight.ir.type import dense_order
from rushlight.ops import OPERATORS
from rushlight.ops.record import UNBACKED, Operator
from rushlight.runtime.generator import default_generator
from rushlight.support.errors import error
from rushlight.support.names import did_you_mean

__all__ = ["OperatorFunction", "copy_", "draw", "relayout", "sym_floordiv", "sym_item", "sym_size", "sym_stride"]

# PyTorch's names of overloads: all of an operator's are one function here.
_OVERLOADS = frozenset(
    ("default", "Tensor", "Scalar", "int", "dim", "dim_IntList", "Tensor_Scalar", "Tensor_Tensor", "self", "out")
)
_functions: dict[str, OperatorFunction] = {}


class OperatorFunction:
    """An operator as a function: what it is called with follows its schema.

    `default`, `Tensor` and PyTorch's other names of overloads are the function itself.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.__name__ = self.__qualname__ = _identifier(operator.name)
        self.__module__ = __name__
        self.__doc__ = operator.doc
        self._unbacked = tuple([one.name for one in operator.schema.attributes if one.type in UNBACKED])

    def __call__(self, *args: Argument, **kwargs: Argument) -> Argument:
        """Apply the operator."""
        asked = relevant([*args, *kwargs.values()])
        if any(not isinstance(one, Handle) for one in asked):
            return answer(self, asked, args, kwargs)
        given = {**dict.fromkeys(self._unbacked), **kwargs} if self._unbacked else kwargs
        return self.operator(*args, **given)

    @property
    def _schema(self) -> object:
        return self.operator.schema

    @property
    def overloadpacket(self) -> OperatorFunction:
        """The function itself."""
        return self

    def name(self) -> str:
        """Return the operator's name."""
        return self.operator.name

    def __getattr__(self, name: str) -> OperatorFunction:
        if name in _OVERLOADS:
            return self
        raise AttributeError(name)

    def __reduce__(self) -> tuple[object, ...]:
        return function_of, (self.operator.name,)

    def __repr__(self) -> str:
        return f"rushlight.fx.ops.{self.__name__}"


def _identifier(name: str) -> str:
    return name.replace("::", "__").replace(".", "_")


def function_of(name: str) -> OperatorFunction:
    """Return an operator as a function, by its name."""
    function = _functions.get(name)
    if function is None or function.operator is not OPERATORS[name]:
        function = _functions[name] = OperatorFunction(OPERATORS[name])
    return function


def copy_(target: Argument, value: Argument) -> Argument:
    """Overwrite a tensor with the elements of another; return the first."""
    return target.copy_(value)


def draw(count: int) -> tuple[int, int]:
    """Return the seed of the default generator, and its next ordinal; `count` of them are taken."""
    return default_generator.next_ordinal(count)


def sym_size(x: Argument, dim: int) -> Argument:
    """Return a size of a tensor."""
    return x.shape[dim]


def sym_stride(x: Argument, dim: int) -> Argument:
    """Return a stride of a tensor."""
    return x.stride(dim)


def sym_item(x: Argument, position: int = 0) -> Argument:
    """Return the one element of a tensor as a number."""
    return x.item()


def sym_floordiv(a: Argument, b: Argument) -> Argument:
    """Return how often a size goes into another: that of zero is the size itself."""
    return a if isinstance(b, int) and b == 0 else a // b


def relayout(x: Argument, size: Sequence[Argument], stride: Sequence[Argument]) -> Argument:
    """Return the elements of a tensor in memory with these strides; itself if places would be shared."""
    if tuple(x.stride()) == tuple(stride) or dense_order(tuple(size), tuple(stride)) is None:
        return x
    return empty_strided(tuple(size), tuple(stride), dtype=x.dtype, device=x.device).copy_(x)


def __getattr__(name: str) -> OperatorFunction:
    if not name.startswith("__"):
        for full in (name, name.replace("__", "::", 1)):
            if full in OPERATORS:
                return function_of(full)
        dotted = [full for full in OPERATORS if "." in full and _identifier(full) == name]
        if dotted:
            return function_of(dotted[0])
    raise error("N001", f"rushlight.fx.ops has no {name}", hint=did_you_mean(name, OPERATORS))
