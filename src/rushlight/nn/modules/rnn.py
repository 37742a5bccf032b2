"""Recurrent layers (Elman 1990; Hochreiter & Schmidhuber 1997; Cho et al. 2014), and the cells that they repeat."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.eager.control import scan
from rushlight.eager.creation import empty, zeros
from rushlight.eager.functions import cat, flip, sigmoid, stack, tanh
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import functional, init
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]

State = tuple[Tensor, ...]


Step = Callable[..., State]


NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {"tanh": tanh, "relu": functional.relu}


# A step takes a state and the input's product with its weights, of which there is one for all steps together.


def _elman_step(state: State, projected: Tensor, weight: Tensor, bias: Tensor | None, nonlinearity: str) -> State:
    return (NONLINEARITIES[nonlinearity](projected + functional.linear(state[0], weight, bias)),)


def _lstm_step(
    state: State, projected: Tensor, weight: Tensor, bias: Tensor | None, narrower: Tensor | None = None
) -> State:
    hidden, memory = state
    write, keep, new, read = (projected + functional.linear(hidden, weight, bias)).chunk(4, -1)
    memory = sigmoid(keep) * memory + sigmoid(write) * tanh(new)
    hidden = sigmoid(read) * tanh(memory)
    return hidden if narrower is None else functional.linear(hidden, narrower), memory


def _gru_step(state: State, projected: Tensor, weight: Tensor, bias: Tensor | None) -> State:
    (hidden,) = state
    reset, keep, new = projected.chunk(3, -1)
    own_reset, own_keep, own_new = functional.linear(hidden, weight, bias).chunk(3, -1)
    new = tanh(new + sigmoid(reset + own_reset) * own_new)
    return (new + sigmoid(keep + own_keep) * (hidden - new),)


def _require_nonlinearity(name: str) -> None:
    require(name in NONLINEARITIES, "A002", f"Unknown nonlinearity '{name}'. Select from 'tanh' or 'relu'.")


def _draw(module: Module, hidden_size: int) -> None:
    require(hidden_size > 0, "A002", f"{type(module).__name__}: hidden_size must be positive", hidden_size=hidden_size)
    for parameter in module.parameters():
        init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))


class Recurrent(Module):
    """Layers of cells, in one or in both directions, each along the whole input.

    Inputs are (length, batch, input_size), or (batch, length, input_size) when `batch_first`, or without a batch. A
    state has a part for each layer and direction: (layers * directions, batch, hidden_size).
    """

    _gates = 1
    input_size: int
    hidden_size: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: object = None,
        dtype: object = None,
        *,
        proj_size: int = 0,
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            require(size > 0, "A002", f"{name} must be greater than zero")
        require(0 <= dropout <= 1, "A002", "dropout should be a number in range [0, 1]", dropout=dropout)
        require(0 <= proj_size < hidden_size, "A002", "proj_size has to be smaller than hidden_size")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else self._width * len(self._suffixes(layer))
            for suffix in self._suffixes(layer):
                for name, shape in self._shapes(width):
                    setattr(self, name + suffix, Parameter(empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    @property
    def _width(self) -> int:
        return self.proj_size or self.hidden_size

    def _suffixes(self, layer: int) -> tuple[str, ...]:
        return (f"_l{layer}", f"_l{layer}_reverse") if self.bidirectional else (f"_l{layer}",)

    def _shapes(self, width: int) -> list[tuple[str, tuple[int, ...]]]:
        rows = self._gates * self.hidden_size
        shapes: list[tuple[str, tuple[int, ...]]] = [("weight_ih", (rows, width)), ("weight_hh", (rows, self._width))]
        shapes += [("bias_ih", (rows,)), ("bias_hh", (rows,))] if self.bias else []
        return [*shapes, ("weight_hr", (self.proj_size, self.hidden_size))] if self.proj_size else shapes

    def reset_parameters(self) -> None:
        """Draw new values, evenly within one over the root of the hidden size."""
        _draw(self, self.hidden_size)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [
            [getattr(self, name + suffix) for name, _ in self._shapes(1)]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    def flatten_parameters(self) -> None:
        """Nothing: the products take the parameters from where they are."""

    def _state_widths(self) -> tuple[int, ...]:
        return (self._width,)

    def _step(self, state: State, projected: Tensor, suffix: str) -> State:
        raise NotImplementedError

    def _named(self, name: str, suffix: str) -> Any:
        return getattr(self, name + suffix) if self.bias or not name.startswith("bias") else None

    def _run(self, input: Tensor, given: State | None) -> tuple[Tensor, State]:
        """Return (the last layer's outputs, the last state) for an input in the user's layout."""
        name, batched = type(self).__name__, input.ndim == 3
        require(input.ndim in (2, 3), "A002", f"{name}: Expected input to be 2D or 3D, got {input.ndim}D", input=input)
        x = (input.transpose(0, 1) if self.batch_first else input) if batched else input.unsqueeze(1)
        state, lasts = self._first_state(x, given, batched), list[State]()
        for layer in range(self.num_layers):
            x = functional.dropout(x, self.dropout, self.training and layer > 0)
            parts = len(self._suffixes(layer))
            own = tuple([part[layer * parts : (layer + 1) * parts] for part in state])
            x, last = self._layer(x, own, layer)
            lasts.append(last)
        ends = tuple([cat(list(part)) for part in zip(*lasts, strict=True)])
        if not batched:
            return x.squeeze(1), tuple([part.squeeze(1) for part in ends])
        return (x.transpose(0, 1) if self.batch_first else x), ends

    def _first_state(self, x: Tensor, given: State | None, batched: bool) -> State:
        count = self.num_layers * len(self._suffixes(0))
        shapes = [(count, x.shape[1], width) for width in self._state_widths()]
        if given is None:
            return tuple([zeros(shape, dtype=x.dtype, device=x.device) for shape in shapes])
        initial = tuple([part if batched else part.unsqueeze(1) for part in given])
        for part, shape in zip(initial, shapes, strict=True):
            fits = part.ndim == 3 and all(holds(one == other) for one, other in zip(part.shape, shape, strict=True))
            require(fits, "S014", f"{type(self).__name__}: Expected hidden size {shape}", got=part)
        return initial

    def _layer(self, x: Tensor, state: State, layer: int) -> tuple[Tensor, State]:
        """(Outputs of all directions beside each other, their last states in order)."""
        runs: list[tuple[Tensor, State]] = []
        for direction, suffix in enumerate(self._suffixes(layer)):
            projected = functional.linear(x, self._named("weight_ih", suffix), self._named("bias_ih", suffix))
            outputs, last = self._along(
                flip(projected, (0,)) if direction else projected, tuple([part[direction] for part in state]), suffix
            )
            runs.append((flip(outputs, (0,)) if direction else outputs, last))
        ends = tuple([stack(list(part)) for part in zip(*[last for _, last in runs], strict=True)])
        return cat([outputs for outputs, _ in runs], -1) if len(runs) > 1 else runs[0][0], ends

    def _along(self, projected: Tensor, state: State, suffix: str) -> tuple[Tensor, State]:
        def step(state: State, projected: Tensor) -> tuple[State, Tensor]:
            state = self._step(state, projected, suffix)
            return state, state[0]

        last, outputs = scan(step, state, projected)
        return outputs, last

    def extra_repr(self) -> str:
        """Return the sizes, and the arguments that differ from their defaults."""
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        others = [f", {name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value]
        return f"{self.input_size}, {self.hidden_size}{''.join(others)}"


class RNN(Recurrent):
    """`h = tanh(x @ weight_ih.mT + bias_ih + h @ weight_hh.mT + bias_hh)`, or with relu."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        _require_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        self.nonlinearity = nonlinearity

    def _step(self, state: State, projected: Tensor, suffix: str) -> State:
        weights = self._named("weight_hh", suffix), self._named("bias_hh", suffix)
        return _elman_step(state, projected, *weights, self.nonlinearity)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the last layer's outputs, and the state at the end."""
        outputs, (hidden,) = self._run(input, None if hx is None else (hx,))
        return outputs, hidden


class GRU(Recurrent):
    """A cell with gates that forget: reset, keep and new, in this order in the weights."""

    _gates = 3

    def _step(self, state: State, projected: Tensor, suffix: str) -> State:
        return _gru_step(state, projected, self._named("weight_hh", suffix), self._named("bias_hh", suffix))

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the last layer's outputs, and the state at the end."""
        outputs, (hidden,) = self._run(input, None if hx is None else (hx,))
        return outputs, hidden


class LSTM(Recurrent):
    """A cell with a memory: input, forget, cell and output gate, in this order in the weights.

    With `proj_size` the hidden state is a product of that width.
    """

    _gates = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            proj_size=proj_size,
        )

    def _state_widths(self) -> tuple[int, ...]:
        return self._width, self.hidden_size

    def _step(self, state: State, projected: Tensor, suffix: str) -> State:
        narrower = self._named("weight_hr", suffix) if self.proj_size else None
        weights = self._named("weight_hh", suffix), self._named("bias_hh", suffix)
        return _lstm_step(state, projected, *weights, narrower)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the last layer's outputs, and (hidden state, memory) at the end."""
        outputs, (hidden, memory) = self._run(input, hx)
        return outputs, (hidden, memory)


class Cell(Module):
    """One step of a recurrent layer: inputs (batch, input_size) or (input_size,), states alike."""

    _gates = 1
    _states = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: object = None, dtype: object = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = self._gates * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        for name, shape in {**shapes, "bias_ih": (rows,), "bias_hh": (rows,)}.items():
            given = bias or name in shapes
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if given else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, evenly within one over the root of the hidden size."""
        _draw(self, self.hidden_size)

    def _next(self, step: Step, input: Tensor, state: State | None, *more: object) -> State:
        name = type(self).__name__
        require(input.ndim in (1, 2), "A002", f"{name}: Expected input to be 1D or 2D, got {input.ndim}D", input=input)
        projected = functional.linear(input, self.weight_ih, self.bias_ih)
        if state is None:
            nothing = zeros((*input.shape[:-1], self.hidden_size), dtype=input.dtype, device=input.device)
            state = (nothing,) * self._states
        return step(state, projected, self.weight_hh, self.bias_hh, *more)

    def extra_repr(self) -> str:
        """Return the sizes, and the arguments that differ from their defaults."""
        return f"{self.input_size}, {self.hidden_size}{'' if self.bias else ', bias=False'}"


class RNNCell(Cell):
    """One step of an RNN."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: object = None,
        dtype: object = None,
    ) -> None:
        _require_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state."""
        return self._next(_elman_step, input, None if hx is None else (hx,), self.nonlinearity)[0]

    def extra_repr(self) -> str:
        """Return the sizes, and the arguments that differ from their defaults."""
        other = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + other


class LSTMCell(Cell):
    """One step of an LSTM."""

    _gates = 4
    _states = 2

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next (hidden state, memory)."""
        hidden, memory = self._next(_lstm_step, input, hx)
        return hidden, memory


class GRUCell(Cell):
    """One step of a GRU."""

    _gates = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state."""
        return self._next(_gru_step, input, None if hx is None else (hx,))[0]
