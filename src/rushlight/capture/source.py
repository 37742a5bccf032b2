"""Where a program's inputs come from at each call."""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.eager.handle import Handle
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.ir.dtype import DType
from rushlight.support.frozen import frozen


@frozen
class ArgumentSource:
    """Tensor argument number `position`, arguments flattened."""

    position: int


@frozen(eq=False)
class TensorSource:
    """A tensor that the function reaches, always the same object."""

    tensor: Handle


@frozen
class StateSource:
    """The tensor that a container holds at the time of the call. The program replaces it.

    `text` gives it, and `name` is that of a local variable.
    """

    name: str
    text: str


@frozen(eq=False)
class GradientSource:
    """The gradient that a tensor, or an argument, has at the time of the call."""

    owner: Handle | ArgumentSource
    form: TensorMeta


@frozen
class NumberSource:
    """A Python number, as an expression."""

    text: str
    dtype: DType


@frozen
class OutputSource:
    """Output number `position` of the graph: only as what a result is a view of, never as an input."""

    position: int


@frozen(eq=False)
class ViewSource:
    """A view of an input or output, made by steps (operator, other operands, attributes): only as a result.

    `recorded`: it was made while autograd was recording.
    """

    base: Source
    steps: tuple[tuple[object, tuple[object, ...], Mapping[str, object]], ...]
    recorded: bool = True


Source = ArgumentSource | TensorSource | StateSource | GradientSource | NumberSource | OutputSource | ViewSource
DYNAMIC = (ArgumentSource, StateSource, GradientSource)  # those that may be another tensor at each call
