"""What recurrent layers repeat: steps of cells, and a step along a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rushlight.eager.control import scan
from rushlight.eager.functions import matmul, tanh, where
from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require

State = tuple[Tensor, ...]
Step = Callable[..., State]


class Weights(NamedTuple):
    """What a step reads beside its state: (width, rows) weights of the state, and (rows,) a bias of their product.

    For projected states there is one weight more, (proj_size, width).
    """

    hidden: Tensor
    bias: Tensor | None
    narrower: Tensor | None = None


# A step takes a state and the input's product with its weights, of which there is one for all steps together.


def tanh_step(state: State, projected: Tensor, weights: Weights) -> State:
    """One step of an Elman cell."""
    return (tanh(projected + matmul(state[0], weights.hidden)),)


def relu_step(state: State, projected: Tensor, weights: Weights) -> State:
    """One step of an Elman cell with relu."""
    return (functional.relu(projected + matmul(state[0], weights.hidden)),)


def lstm_step(state: State, projected: Tensor, weights: Weights) -> State:
    """One step of an LSTM, whose state is (hidden, memory)."""
    hidden, memory = OPERATORS["lstm_state"](projected, matmul(state[0], weights.hidden), state[1])
    return hidden if weights.narrower is None else functional.linear(hidden, weights.narrower), memory


def gru_step(state: State, projected: Tensor, weights: Weights) -> State:
    """One step of a GRU."""
    (hidden,) = state
    return (OPERATORS["gru_state"](projected, matmul(hidden, weights.hidden), hidden, weights.bias),)


STEPS: dict[str, Step] = {"RNN_TANH": tanh_step, "RNN_RELU": relu_step, "LSTM": lstm_step, "GRU": gru_step}
"""The step of each mode of a recurrent layer."""


def products(
    mode: str, x: Tensor, weights: tuple[Tensor, Tensor], biases: tuple[Tensor | None, Tensor | None]
) -> tuple[Tensor, Weights]:
    """Return (the product of an input with its weights, what steps read).

    Weights and biases are given for both products. Both biases are added once, to the input's product, unless a gate
    stands before the state's.
    """
    own, state_bias = biases
    if own is not None and state_bias is not None and mode != "GRU":
        own, state_bias = own + state_bias, None
    return functional.linear(x, weights[0], own), Weights(weights[1].mT, state_bias)


def mode_of(nonlinearity: str) -> str:
    """Return the mode of an Elman cell with a nonlinearity."""
    valid = nonlinearity in ("tanh", "relu")
    require(valid, "A002", f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return f"RNN_{nonlinearity.upper()}"


def along(
    step: Step, projected: Tensor, state: State, weights: Weights, present: Tensor | None, backward: bool
) -> tuple[Tensor, State]:
    """Return (hidden states of all steps, last state) of a step along (length, batch, width).

    Where `present`, (length, batch) bools, is given, a sequence keeps its state at the steps that it does not have.
    """

    def next_state(state: State, projected: Tensor) -> tuple[State, Tensor]:
        state = step(state, projected, weights)
        return state, state[0]

    def next_present(state: State, parts: tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
        projected, here = parts
        following = step(state, projected, weights)
        state = tuple([where(here, new, old) for new, old in zip(following, state, strict=True)])
        return state, state[0]

    if present is None:
        last, outputs = scan(next_state, state, projected, reverse=backward)
    else:
        last, outputs = scan(next_present, state, (projected, present.unsqueeze(-1)), reverse=backward)
    return outputs, last
