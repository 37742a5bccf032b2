"""Recurrent layers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import functional
from rushlight.onnx.ops.activation import elu, hard_sigmoid, leaky_relu, thresholded_relu
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Value
from rushlight.support.errors import fail

Function = Callable[[Tensor], Tensor]
Cell = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _affine(x: Tensor, *, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
    return alpha * x + beta


def _scaled_tanh(x: Tensor, *, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    return alpha * rl.tanh(beta * x)


# Activations, and which of `alpha` and `beta` they take.
_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], tuple[str, ...]]] = {
    "affine": (_affine, ("alpha", "beta")),
    "elu": (elu, ("alpha",)),
    "hardsigmoid": (hard_sigmoid, ("alpha", "beta")),
    "leakyrelu": (leaky_relu, ("alpha",)),
    "relu": (rl.relu, ()),
    "scaledtanh": (_scaled_tanh, ("alpha", "beta")),
    "sigmoid": (rl.sigmoid, ()),
    "softplus": (functional.softplus, ()),
    "softsign": (functional.softsign, ()),
    "tanh": (rl.tanh, ()),
    "thresholdedrelu": (thresholded_relu, ("alpha",)),
}


def _activation(name: str, alpha: float | None, beta: float | None) -> Function:
    if name.lower() not in _ACTIVATIONS:
        fail("O002", f"onnx: there is no activation {name} of recurrent layers")
    function, parameters = _ACTIVATIONS[name.lower()]
    numbers = {"alpha": alpha, "beta": beta}
    given = {key: numbers[key] for key in parameters if numbers[key] is not None}
    return functools.partial(function, **given)


class _Options:
    """What the three layers have in common."""

    def __init__(self, defaults: Sequence[str], options: dict[str, Value]) -> None:
        self.direction: str = options.get("direction", "forward")
        self.directions = 2 if self.direction == "bidirectional" else 1
        names = options.get("activations") or tuple(defaults) * self.directions
        alphas, betas = options.get("activation_alpha", ()), options.get("activation_beta", ())
        self.functions = [
            _activation(name, _nth(alphas, place), _nth(betas, place)) for place, name in enumerate(names)
        ]
        self.each = len(defaults)
        self.clip: float | None = options.get("clip")
        self.batch_first = bool(options.get("layout", 0))
        self.linear_before_reset = bool(options.get("linear_before_reset", 0))
        self.input_forget = bool(options.get("input_forget", 0))

    def clipped(self, x: Tensor) -> Tensor:
        """Numbers moved into the interval of the attribute."""
        return x if self.clip is None else x.clamp(-self.clip, self.clip)


def _nth(values: Sequence[float], place: int) -> float | None:
    return values[place] if place < len(values) else None


ATTRIBUTES = ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "layout")


def _run(
    options: _Options,
    cells: Sequence[Cell],
    x: Tensor,
    lengths: Tensor | None,
    states: Sequence[Tensor | None],
    hidden: int,
) -> tuple[Tensor, ...]:
    """All outputs, and the last states, of the directions."""
    if options.batch_first:
        x = x.transpose(0, 1)
        states = [None if state is None else state.transpose(0, 1) for state in states]
    outputs: list[Tensor] = []
    finals: list[tuple[Tensor, ...]] = []
    for place, cell in enumerate(cells):
        start = tuple(
            [rl.zeros(x.shape[1], hidden, dtype=x.dtype) if state is None else state[place] for state in states]
        )
        backward = options.direction == "reverse" or place == 1
        output, final = _one_way(cell, x, lengths, start, backward)
        outputs.append(output)
        finals.append(final)
    last = [rl.stack([final[place] for final in finals]) for place in range(len(states))]
    whole = rl.stack(outputs, 1)
    if options.batch_first:
        return (whole.permute(2, 0, 1, 3), *[state.transpose(0, 1) for state in last])
    return (whole, *last)


def _one_way(
    cell: Cell, x: Tensor, lengths: Tensor | None, start: tuple[Tensor, ...], backward: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    rows = x.flip(0) if backward else x
    steps = rl.arange(x.shape[0])
    steps = steps.flip(0) if backward else steps

    def once(states: tuple[Tensor, ...], row: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor, ...], Tensor]:
        following = cell(row[0], states)
        if lengths is None:
            return following, following[0].clone()
        alive = (row[1] < lengths).unsqueeze(1)
        kept = tuple([rl.where(alive, new, old) for new, old in zip(following, states, strict=True)])
        return kept, rl.where(alive, following[0], rl.zeros_like(following[0]))

    if rl.compiler.is_compiling():
        final, outputs = rl.scan(once, start, (rows, steps))
    else:
        final, parts = start, []
        for place in range(x.shape[0]):
            final, part = once(final, (rows[place], steps[place]))
            parts.append(part)
        outputs = rl.stack(parts)
    return (outputs.flip(0) if backward else outputs), final


def _bias(bias: Tensor | None, place: int, gates: int, hidden: int, x: Tensor) -> tuple[Tensor, Tensor]:
    if bias is None:
        zero = rl.zeros(gates * hidden, dtype=x.dtype)
        return zero, zero
    return bias[place, : gates * hidden], bias[place, gates * hidden :]


@operator("RNN", attributes=ATTRIBUTES)
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    **attributes: Value,
) -> tuple[Tensor, ...]:
    """A simple recurrent layer."""
    options, hidden = _Options(("Tanh",), attributes), r.shape[-1]

    def cell_of(place: int) -> Cell:
        first, second = _bias(bias, place, 1, hidden, x)
        function = options.functions[place * options.each]

        def cell(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (function(options.clipped(row @ w[place].mT + states[0] @ r[place].mT + first + second)),)

        return cell

    return _run(options, [cell_of(place) for place in range(options.directions)], x, lengths, [start], hidden)


@operator("GRU", attributes=(*ATTRIBUTES, "linear_before_reset"))
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    **attributes: Value,
) -> tuple[Tensor, ...]:
    """A layer of gated recurrent units."""
    options, hidden = _Options(("Sigmoid", "Tanh"), attributes), r.shape[-1]

    def cell_of(place: int) -> Cell:
        first, second = _bias(bias, place, 3, hidden, x)
        gate, change = options.functions[place * options.each : place * options.each + 2]

        def cell(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (state,) = states
            given = row @ w[place].mT + first
            own, wide = state @ r[place, : 2 * hidden].mT + second[: 2 * hidden], 2 * hidden
            update = gate(options.clipped(given[:, :hidden] + own[:, :hidden]))
            reset = gate(options.clipped(given[:, hidden:wide] + own[:, hidden:]))
            if options.linear_before_reset:
                memory = reset * (state @ r[place, wide:].mT + second[wide:])
            else:
                memory = (reset * state) @ r[place, wide:].mT + second[wide:]
            fresh = change(options.clipped(given[:, wide:] + memory))
            return ((1 - update) * fresh + update * state,)

        return cell

    return _run(options, [cell_of(place) for place in range(options.directions)], x, lengths, [start], hidden)


@operator("LSTM", attributes=(*ATTRIBUTES, "input_forget"))
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    start: Tensor | None = None,
    start_cell: Tensor | None = None,
    peepholes: Tensor | None = None,
    **attributes: Value,
) -> tuple[Tensor, ...]:
    """A layer of long short-term memory."""
    options, hidden = _Options(("Sigmoid", "Tanh", "Tanh"), attributes), r.shape[-1]

    def cell_of(place: int) -> Cell:
        first, second = _bias(bias, place, 4, hidden, x)
        gate, change, shown = options.functions[place * options.each : place * options.each + 3]
        peeps = None if peepholes is None else peepholes[place].split(hidden)

        def seen(value: Tensor, memory: Tensor, which: int) -> Tensor:
            return options.clipped(value if peeps is None else value + peeps[which] * memory)

        def cell(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            state, memory = states
            parts = (row @ w[place].mT + state @ r[place].mT + first + second).split(hidden, 1)
            entry = gate(seen(parts[0], memory, 0))
            forget = 1 - entry if options.input_forget else gate(seen(parts[2], memory, 2))
            following = forget * memory + entry * change(options.clipped(parts[3]))
            return gate(seen(parts[1], following, 1)) * shown(following), following

        return cell

    cells = [cell_of(place) for place in range(options.directions)]
    return _run(options, cells, x, lengths, [start, start_cell], hidden)
