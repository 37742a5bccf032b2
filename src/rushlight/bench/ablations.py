"""Mechanisms of the compiler, on and off: what each gains where it should, in turns, with the same bits.

A trial is a function that is compiled twice, as always and without a mechanism (the setting `without`). What the
machine allows, a copy of the bytes that no plan could do without or its multiplications, takes turns with both.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import rushlight as rl
from rushlight.bench.records import Case, Record, moved
from rushlight.bench.reports.tables import Table, duration
from rushlight.bench.results import Ceilings
from rushlight.bench.serving import Artifact
from rushlight.bench.timing import Turn, ratio, rounds_within, take_turns
from rushlight.eager.memory import array_of
from rushlight.eager.pytree import flatten_tree
from rushlight.support import settings

F = rl.nn.functional
Tensors = tuple[rl.Tensor, ...]
Sizes = tuple[int, ...]
WITH, WITHOUT = "with", "without"
CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""What seconds are read from: the second where one thread is timed on a machine that does other work too."""
NOISE = 1.03  # by so much do two sides differ that are the same


class Trial(NamedTuple):
    """A function on tensors of some sizes, and the mechanism that its code has or lacks.

    `bytes` are those that any plan moves, and `flops` the operations.
    """

    name: str
    mechanism: str
    make: Callable[[], Tensors]
    run: Callable[..., Any]
    bytes: float
    flops: float = 0.0


class Outcome(NamedTuple):
    """Seconds of calls in turns, whether both gave the same bits, and shares of what the machine allows."""

    trial: Trial
    seconds: Mapping[str, Sequence[float]]
    limit: float | None
    same: bool

    @property
    def gain(self) -> float:
        """The median of ratios: above 1 where the mechanism makes calls faster."""
        return ratio(self.seconds[WITHOUT], self.seconds[WITH])

    @property
    def is_right(self) -> bool:
        """Whether having the mechanism is the faster way, or neither is by more than equal sides differ."""
        return self.gain * NOISE >= 1

    def to_record(self) -> Record:
        """As a JSON object."""
        samples = {name: list(taken) for name, taken in self.seconds.items()}
        about = {"trial": self.trial.name, "left_out": self.trial.mechanism, "limit": self.limit, "same": self.same}
        return {**about, "gain": self.gain, "seconds": samples}


class Side(Artifact):
    """A function that is compiled with or without a mechanism."""

    def __init__(self, name: str, trial: Trial, tensors: Tensors, clock: Callable[[], float]) -> None:
        compiled = rl.compile(trial.run, dynamic=False)
        super().__init__(name, lambda: compiled(*tensors), clock)
        self._without = (trial.mechanism,) if name == WITHOUT else ()

    def bits(self) -> list[bytes]:
        """The results of a call."""
        with settings.override(without=self._without):
            return [array_of(one).tobytes() for one in flatten_tree(self._work())[0]]

    def turn(self) -> Turn:
        """See `Artifact`."""
        with settings.override(without=self._without):
            return super().turn()

    def ask(self, do: str, **values: Any) -> Record:
        """See `Artifact`."""
        with settings.override(without=self._without):
            return super().ask(do, **values)


def measure(trial: Trial, ceilings: Ceilings | None, rounds: int, budget: float, clock: str = "wall") -> Outcome:
    """Compiles both ways, compares their bits, and times them in turns with what the machine allows.

    Without ceilings nothing is timed. The share of the limit is that of the least times, where the clock is the wall's.
    """
    rl.manual_seed(0)
    tensors = trial.make()
    sides = [Side(name, trial, tensors, CLOCKS[clock]) for name in (WITH, WITHOUT)]
    same = sides[0].bits() == sides[1].bits()
    if ceilings is None:
        return Outcome(trial, {}, None, same)
    case = Case(trial.name, "ablations", trial.name, lambda rng: {}, trial.flops, trial.bytes)
    turns = [*[side.turn() for side in sides], *ceilings.turns_for(case)]
    seconds, _ = take_turns(turns, rounds_within(turns, rounds, budget))
    limit = max([min(seconds[name]) for name in Ceilings._fields])
    taken = {side.name: seconds[side.name] for side in sides}
    return Outcome(trial, taken, limit / min(taken[WITH]) if clock == "wall" else None, same)


def as_table(title: str, outcomes: Sequence[Outcome]) -> Table:
    """A row for each trial, and the verdict in a note."""
    rows = [["trial", "left out", WITH, WITHOUT, "gain", "of the limit", ""]]
    for one in outcomes:
        times = [duration(statistics.median(one.seconds[name])) for name in (WITH, WITHOUT)]
        said = "other bits" if not one.same else "" if one.is_right else "loses"
        share = "" if one.limit is None else f"{one.limit:.0%}"
        rows.append([one.trial.name, one.trial.mechanism, *times, f"{one.gain:.2f}", share, said])
    return Table(title, rows, [summary(outcomes)])


def summary(outcomes: Sequence[Outcome]) -> str:
    """In how many trials no way is faster than having the mechanism, and what always having it costs."""
    right = sum([one.is_right for one in outcomes])
    return f"having it is right in {right} of {len(outcomes)}; regret of always having it {regret(outcomes):.1%}"


def regret(outcomes: Sequence[Outcome]) -> float:
    """What the ways that were chosen take longer than the best ways: the mean over trials."""
    return statistics.fmean([max(1.0, 1 / one.gain) - 1 for one in outcomes])


def _randn(*shapes: Sizes) -> Callable[[], Tensors]:
    return lambda: tuple([rl.randn(*shape) for shape in shapes])


def with_gradients(function: Callable[..., rl.Tensor]) -> Callable[..., Tensors]:
    """The gradients of a function of tensors; its last argument is that of the result."""

    def run(*tensors: rl.Tensor) -> Tensors:
        *given, slope = tensors
        leaves = [one.detach().requires_grad_() for one in given]
        return rl.autograd.grad(function(*leaves), leaves, slope)

    return run


def layer_norm(x: rl.Tensor, w: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    """Over the last dim."""
    return F.layer_norm(x, (x.shape[-1],), w, b)


def rms_norm(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
    """Over the last dim."""
    return F.rms_norm(x, (x.shape[-1],), w)


def two_norms(x: rl.Tensor, y: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
    """Two norms that share a weight."""
    return rms_norm(x, w) + rms_norm(y, w)


def _inner() -> Iterator[Trial]:
    norms = (("layer_norm", layer_norm, 2), ("rms_norm", rms_norm, 1), ("softmax", lambda x: x.softmax(-1), 0))
    for rows, columns in ((100_000, 64), (100_000, 128), (100_000, 512), (500_000, 64), (500_000, 128)):
        for name, function, weights in norms:
            shapes = ((rows, columns), *[(columns,)] * weights)
            size = moved((rows, columns), (rows, columns))
            yield Trial(f"{name} {rows}x{columns}", "rows", _randn(*shapes), function, size)


def _outer() -> Iterator[Trial]:
    for columns in (512, 1024, 2048, 4096):
        shape = (32768, columns)
        yield Trial(f"sum(0) {shape[0]}x{columns}", "row_sums", _randn(shape), lambda x: x.sum(0), moved(shape))


def _mixed() -> Iterator[Trial]:
    for rows, columns in ((32768, 512), (32768, 1024), (32768, 2048), (16384, 4096)):
        shape = (rows, columns)
        for name, function, weights in (("layer_norm", layer_norm, 2), ("rms_norm", rms_norm, 1)):
            make = _randn(shape, *[(columns,)] * weights, shape)
            run = with_gradients(function)
            yield Trial(f"{name} gradients {rows}x{columns}", "row_sums", make, run, moved(shape, shape, shape))


def _cliffs() -> Iterator[Trial]:
    for rows, columns in ((4096, 8192), (2048, 16384)):
        shape = (rows, columns)
        make = _randn(shape, (columns,), shape)
        run = with_gradients(rms_norm)
        yield Trial(f"rms_norm gradients {rows}x{columns}", "row_sums", make, run, moved(shape, shape, shape))
    shape = (8192, 2048)
    make = _randn(shape, shape, (2048,), shape)
    size = moved(*[shape] * 5)
    yield Trial("two norms of one weight 8192x2048", "row_sums", make, with_gradients(two_norms), size)


def _long_sums() -> Iterator[Trial]:
    for side in (16, 32, 64):
        for inner in (4096, 8192, 16384, 32768):
            shapes = ((side, inner), (inner, side))
            flops = 2.0 * side * side * inner
            run = rl.matmul
            yield Trial(f"{side}x{side}x{inner}", "splits", _randn(*shapes), run, moved(*shapes), flops)


EPILOGUES: Mapping[str, Callable[..., rl.Tensor]] = {
    "bias, relu": lambda c, bias, other: (c + bias).relu(),
    "gelu": lambda c, bias, other: F.gelu(c),
    "residual": lambda c, bias, other: c + other,
    "gate": lambda c, bias, other: F.silu(c) * other,
    "scale, clamp": lambda c, bias, other: (c * 0.125).clamp(-1, 1),
    "bias, tanh, residual": lambda c, bias, other: (c + bias).tanh() + other,
}
PRODUCTS: Sequence[tuple[int, int, int]] = (
    (256, 256, 256),
    (64, 1024, 512),
    (16, 2048, 1024),
    (1024, 1024, 64),
    (2048, 2048, 32),
)
"""Rows, columns, and the length of sums."""


def _epilogues() -> Iterator[Trial]:
    for m, n, k in PRODUCTS:
        for name, function in EPILOGUES.items():
            shapes = ((m, k), (k, n), (n,), (m, n))

            def run(a: rl.Tensor, b: rl.Tensor, bias: rl.Tensor, other: rl.Tensor, function: Any = function) -> Any:
                return function(a @ b, bias, other)

            size = moved((m, k), (k, n), (m, n))
            yield Trial(f"{m}x{n}x{k} {name}", "epilogues", _randn(*shapes), run, size, 2.0 * math.prod((m, n, k)))


GROUPS: Mapping[str, Callable[[], Iterator[Trial]]] = {
    "epilogues": _epilogues,
    "inner-reductions": _inner,
    "outer-reductions": _outer,
    "mixed-reductions": _mixed,
    "cliffs": _cliffs,
    "long-sums": _long_sums,
}
"""Trials by what they are about."""
