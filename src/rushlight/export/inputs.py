"""What feeds the graph of an exported program, and the tensors that it owns."""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.eager.tensor import Tensor
from rushlight.ir.graph import Call
from rushlight.support.frozen import frozen


@frozen
class Input:
    """What feeds one input of the graph.

    `kind` is "parameter", "buffer" or "constant" with the tensor's name as `target`, "argument" with the number of a
    leaf of the arguments, "seed", "ordinal" with how many random calls come before, or "number" with an expression.
    """

    kind: str
    name: str
    target: str | int


@frozen
class Mutated:
    """A tensor that a run writes to: the kind and target of an input, and the graph's value that is written."""

    kind: str
    target: str | int
    value: Call


@frozen(eq=False)
class State:
    """The tensors of a program by name: those of the module, and `constants`, which the function reaches besides.

    `kinds` says of each of the module's whether it is a "parameter", a "buffer", or a "volatile" buffer, which
    `state_dict()` leaves out. `ties` are further names of parameters and buffers.
    """

    tensors: Mapping[str, Tensor]
    kinds: Mapping[str, str]
    ties: Mapping[str, str]
    constants: Mapping[str, Tensor]
