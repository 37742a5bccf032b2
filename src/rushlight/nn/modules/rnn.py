"""Recurrent layers (Elman 1990; Hochreiter & Schmidhuber 1997; Cho et al. 2014), and the cells that they repeat."""

from __future__ import annotations

import math
from typing import Any

from rushlight.eager.creation import empty, zeros
from rushlight.eager.functions import cat, stack
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import functional, init
from rushlight.nn.modules.module import Module
from rushlight.nn.packed import PackedSequence, cells_of, unpacked
from rushlight.nn.recurrence import STEPS, State, along, mode_of, products
from rushlight.support.errors import require, warn

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

KINDS = ("weight", "bias")
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _draw(module: Module, hidden_size: int) -> None:
    bound = 1 / math.sqrt(hidden_size) if hidden_size > 0 else 0.0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


class RNNBase(Module):
    """Layers of cells, in one or in both directions, each along the whole input: RNN, LSTM or GRU by `mode`.

    Inputs are (length, batch, input_size), or (batch, length, input_size) when `batch_first`, or without a batch, or
    packed sequences. A state has a part for each layer and direction: (layers * directions, batch, hidden_size).
    """

    mode: str
    input_size: int
    hidden_size: int

    def __init__(
        self,
        mode: str,
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
        super().__init__()
        require(mode in GATES, "A002", f"Unrecognized RNN mode: {mode}")
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            require(size > 0, "A002", f"{name} must be greater than zero")
        require(0 <= dropout <= 1, "A002", "dropout should be a number in range [0, 1]", dropout=dropout)
        require(0 <= proj_size < hidden_size, "A002", "proj_size has to be smaller than hidden_size, and 0 or more")
        if dropout > 0 and num_layers == 1:
            warn("A008", f"{mode}: dropout comes between layers, and there is one", key=("dropout", mode))
        self.mode = mode
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
        rows = GATES[self.mode] * self.hidden_size
        shapes: list[tuple[str, tuple[int, ...]]] = [("weight_ih", (rows, width)), ("weight_hh", (rows, self._width))]
        shapes += [("bias_ih", (rows,)), ("bias_hh", (rows,))] if self.bias else []
        return [*shapes, ("weight_hr", (self.proj_size, self.hidden_size))] if self.proj_size else shapes

    def reset_parameters(self) -> None:
        """Draw new values, evenly within one over the root of the hidden size."""
        _draw(self, self.hidden_size)

    @property
    def _all_weights(self) -> list[list[str]]:
        return [
            [name + suffix for name, _ in self._shapes(1)]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing: the products take the parameters from where they are."""

    def _state_widths(self) -> tuple[int, ...]:
        return (self._width, self.hidden_size) if self.mode == "LSTM" else (self._width,)

    def _named(self, name: str, suffix: str) -> Any:
        return getattr(self, name + suffix) if self.bias or not name.startswith("bias") else None

    def _run(self, input: Tensor | PackedSequence, given: State | None) -> tuple[Any, State]:
        """Return (the last layer's outputs, the last state) for an input in the user's layout."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, given)
        name, batched = type(self).__name__, input.ndim == 3
        require(input.ndim in (2, 3), "A002", f"{name}: Expected input to be 2D or 3D, got {input.ndim}D", input=input)
        x = (input.transpose(0, 1) if self.batch_first else input) if batched else input.unsqueeze(1)
        if given is not None:
            fits = all(part.ndim == input.ndim for part in given)
            require(
                fits, "A004", f"{name}: For {input.ndim}-D input, states should also be {input.ndim}-D", given=given
            )
            given = given if batched else tuple([part.unsqueeze(1) for part in given])
        x, ends = self._layers(x, self._first_state(x, given), None)
        if not batched:
            return x.squeeze(1), tuple([part.squeeze(1) for part in ends])
        return (x.transpose(0, 1) if self.batch_first else x), ends

    def _run_packed(self, input: PackedSequence, given: State | None) -> tuple[PackedSequence, State]:
        """The same of packed sequences, whose states are in the order before they were sorted."""
        name, order = type(self).__name__, input.sorted_indices
        cells = cells_of(input.batch_sizes)
        require(input.data.ndim == 2, "A002", f"{name}: Expected packed input to be 2D", input=input.data)
        x = unpacked(input.data, cells)
        if given is not None and order is not None:
            require(all(part.ndim == 3 for part in given), "A004", f"{name}: states should be 3-D", given=given)
            given = tuple([part.index_select(1, order) for part in given])
        x, ends = self._layers(x, self._first_state(x, given), cells)
        if input.unsorted_indices is not None:
            ends = tuple([part.index_select(1, input.unsorted_indices) for part in ends])
        return input._replace(data=x[cells]), ends

    def _first_state(self, x: Tensor, given: State | None) -> State:
        same = x.shape[-1] == self.input_size
        require(holds(same), "S014", f"input.size(-1) must be equal to input_size. Expected {self.input_size}", got=x)
        require(holds(x.shape[0] > 0), "A004", "Expected sequence length to be larger than 0 in RNN")
        count = self.num_layers * len(self._suffixes(0))
        shapes = [(count, x.shape[1], width) for width in self._state_widths()]
        if given is None:
            return tuple([zeros(shape, dtype=x.dtype, device=x.device) for shape in shapes])
        require(len(given) == len(shapes), "A001", f"{type(self).__name__}: takes {len(shapes)} states", given=given)
        for part, shape in zip(given, shapes, strict=True):
            fits = part.ndim == 3 and all(holds(one == other) for one, other in zip(part.shape, shape, strict=True))
            require(fits, "S014", f"{type(self).__name__}: Expected hidden size {shape}", got=part)
        return given

    def _layers(self, x: Tensor, state: State, present: Tensor | None) -> tuple[Tensor, State]:
        """(Outputs of the last layer, last states of all layers) for (length, batch, input_size)."""
        lasts: list[State] = []
        for layer in range(self.num_layers):
            x = functional.dropout(x, self.dropout, self.training and layer > 0)
            parts = len(self._suffixes(layer))
            own = tuple([part[layer * parts : (layer + 1) * parts] for part in state])
            x, last = self._layer(x, own, layer, present)
            lasts.append(last)
        return x, tuple([cat(list(part)) for part in zip(*lasts, strict=True)])

    def _layer(self, x: Tensor, state: State, layer: int, present: Tensor | None) -> tuple[Tensor, State]:
        """(Outputs of all directions beside each other, their last states in order)."""
        runs: list[tuple[Tensor, State]] = []
        for direction, suffix in enumerate(self._suffixes(layer)):
            pair, biases = [(self._named(f"{kind}_ih", suffix), self._named(f"{kind}_hh", suffix)) for kind in KINDS]
            projected, weights = products(self.mode, x, pair, biases)
            if self.proj_size:
                weights = weights._replace(narrower=self._named("weight_hr", suffix))
            own = tuple([part[direction] for part in state])
            runs.append(along(STEPS[self.mode], projected, own, weights, present, direction == 1))
        ends = tuple([stack(list(part)) for part in zip(*[last for _, last in runs], strict=True)])
        return cat([outputs for outputs, _ in runs], -1) if len(runs) > 1 else runs[0][0], ends

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


class RNN(RNNBase):
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
        sizes = input_size, hidden_size, num_layers
        options = bias, batch_first, dropout, bidirectional, 0
        super().__init__(mode_of(nonlinearity), *sizes, *options, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor | PackedSequence, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Return the last layer's outputs, packed where the input is, and the state at the end."""
        outputs, (hidden,) = self._run(input, None if hx is None else (hx,))
        return outputs, hidden


class GRU(RNNBase):
    """A cell with gates that forget: reset, keep and new, in this order in the weights."""

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
    ) -> None:
        sizes = input_size, hidden_size, num_layers
        options = bias, batch_first, dropout, bidirectional, 0
        super().__init__("GRU", *sizes, *options, device=device, dtype=dtype)

    def forward(self, input: Tensor | PackedSequence, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Return the last layer's outputs, packed where the input is, and the state at the end."""
        outputs, (hidden,) = self._run(input, None if hx is None else (hx,))
        return outputs, hidden


class LSTM(RNNBase):
    """A cell with a memory: input, forget, cell and output gate, in this order in the weights.

    With `proj_size` the hidden state is a product of that width.
    """

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
        sizes = input_size, hidden_size, num_layers
        options = bias, batch_first, dropout, bidirectional, proj_size
        super().__init__("LSTM", *sizes, *options, device=device, dtype=dtype)

    def forward(
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Return the last layer's outputs, packed where the input is, and (hidden state, memory) at the end."""
        outputs, (hidden, memory) = self._run(input, None if hx is None else tuple(hx))
        return outputs, (hidden, memory)


class RNNCellBase(Module):
    """One step of a recurrent layer: inputs (batch, input_size) or (input_size,), states alike.

    The weights have `num_chunks` times `hidden_size` rows: a part for each gate.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        for name, shape in {**shapes, "bias_ih": (rows,), "bias_hh": (rows,)}.items():
            given = bias or name in shapes
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if given else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, evenly within one over the root of the hidden size."""
        _draw(self, self.hidden_size)

    def _next(self, mode: str, input: Tensor, given: State | None) -> State:
        name = type(self).__name__
        require(input.ndim in (1, 2), "A002", f"{name}: Expected input to be 1D or 2D, got {input.ndim}D", input=input)
        shape = (*input.shape[:-1], self.hidden_size)
        if given is None:
            given = (zeros(shape, dtype=input.dtype, device=input.device),) * (2 if mode == "LSTM" else 1)
        for part in given:
            fits = part.ndim == input.ndim
            fits = fits and all(holds(one == other) for one, other in zip(part.shape, shape, strict=True))
            require(fits, "S014", f"{name}: Expected hidden size {shape}", got=part)
        pair, biases = (self.weight_ih, self.weight_hh), (self.bias_ih, self.bias_hh)
        return STEPS[mode](given, *products(mode, input, pair, biases))

    def extra_repr(self) -> str:
        """Return the sizes, and the arguments that differ from their defaults."""
        other = f", nonlinearity={self.nonlinearity}" if getattr(self, "nonlinearity", "tanh") != "tanh" else ""
        return f"{self.input_size}, {self.hidden_size}{'' if self.bias else ', bias=False'}{other}"


class RNNCell(RNNCellBase):
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
        mode_of(nonlinearity)
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state."""
        return self._next(mode_of(self.nonlinearity), input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: object = None, dtype: object = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next (hidden state, memory)."""
        hidden, memory = self._next("LSTM", input, None if hx is None else tuple(hx))
        return hidden, memory


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: object = None, dtype: object = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state."""
        return self._next("GRU", input, None if hx is None else (hx,))[0]
