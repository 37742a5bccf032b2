"""What recurrent layers repeat: steps of cells, and a step along a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rushlight.eager.control import scan
from rushlight.eager.functions import sigmoid, tanh, where
from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.support.errors import require

State = tuple[Tensor, ...]
Step = Callable[..., State]


class Weights(NamedTuple):
    """What a step reads beside its state: the state's product, and for projected states one more."""

    hidden: Tensor
    bias: Tensor | None
    narrower: Tensor | None = None


# A step takes a state and the input's product with its weights, of which there is one for all steps together.


def tanh_step(state: State, projected: Tensor, weights: Weights) -> State:
    """One step of an Elman cell."""
    return (tanh(projected + functional.linear(state[0], weights.hidden, weights.bias)),)


def relu_step(state: State, projected: Tensor, weights: Weights) -> State:
    """One step of an Elman cell with relu."""
    return (functional.relu(projected + functional.linear(state[0], weights.hidden, weights.bias)),)


def lstm_step(state: State, projected: Tensor, weights: Weights) -> State:
    """One step of an LSTM, whose state is (hidden, memory)."""
    hidden, memory = state
    gates = projected + functional.linear(hidden, weights.hidden, weights.bias)
    write, keep, new, read = gates.chunk(4, -1)
    memory = sigmoid(keep) * memory + sigmoid(write) * tanh(new)
    hidden = sigmoid(read) * tanh(memory)
    return hidden if weights.narrower is None else functional.linear(hidden, weights.narrower), memory


def gru_step(state: State, projected: Tensor, weights: Weights) -> State:
    """One step of a GRU."""
    (hidden,) = state
    reset, keep, new = projected.chunk(3, -1)
    own_reset, own_keep, own_new = functional.linear(hidden, weights.hidden, weights.bias).chunk(3, -1)
    new = tanh(new + sigmoid(reset + own_reset) * own_new)
    return (new + sigmoid(keep + own_keep) * (hidden - new),)


STEPS: dict[str, Step] = {"RNN_TANH": tanh_step, "RNN_RELU": relu_step, "LSTM": lstm_step, "GRU": gru_step}
"""The step of each mode of a recurrent layer."""


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
