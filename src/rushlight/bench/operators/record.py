"""What a benchmark of an operator is: inputs for sizes, numpy's result, variants, and the work of a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rushlight.bench.records import TOLERANCES, Array, Case, Inputs, drawn

Shape = tuple[int, ...]
Function = Callable[..., Any]
FORWARD, BACKWARD, BOTH = "forward", "backward", "both"
MODES = (FORWARD, BACKWARD, BOTH)
BASELINE = "eager"
PLANTED = "planted"
FAMILY = "operators"


class Contender(NamedTuple):
    """How a framework runs a variant: its name, the framework, and the framework's mode."""

    name: str
    framework: str
    mode: str


# Each benchmark has these, all of its baseline's text. The first is what speed-ups are relative to. The last is a fault
# that the check must find, and is run where it is asked for.
COMMON = (
    Contender(BASELINE, "rushlight", "eager"),
    Contender("compiled", "rushlight", "compiled"),
    Contender("max-autotune", "rushlight", "max-autotune"),
    Contender("torch", "torch", "eager"),
    Contender("torch.compile", "torch", "compiled"),
    Contender(PLANTED, "rushlight", "eager"),
)
ON_REQUEST = ("max-autotune", PLANTED)


class Variant(NamedTuple):
    """Another way to compute the same. `needs` is the hardware that it is for, where this processor is not enough."""

    function: Function
    contender: Contender
    needs: str = ""


@dataclass(slots=True)
class Benchmark:
    """An operator to measure. `sizes` names its sizes; `shapes` has sets of them: `small` ones are for checks alone.

    `work` counts the operations of a forward call. `differentiated` are the inputs that have gradients. `traffic`
    counts the bytes of a forward call where not all of each operand is read.
    """

    name: str
    about: str
    sizes: tuple[str, ...]
    shapes: Mapping[str, Sequence[Shape]]
    work: Callable[..., float]
    make: Callable[..., Inputs]
    reference: Callable[..., object]
    baseline: Function
    differentiated: tuple[str, ...] = ()
    dtype: str = "float32"
    tolerance: float | None = None
    traffic: Callable[..., float] | None = None
    in_torch: bool = True
    variants: dict[str, Variant] = field(default_factory=dict)

    def variant(self, name: str, *, compiled: bool = True, needs: str = "") -> Callable[[Function], Function]:
        """Registers another way to compute the same, by Rushlight."""

        def register(function: Function) -> Function:
            contender = Contender(name, "rushlight", "compiled" if compiled else "eager")
            self.variants[name] = Variant(function, contender, needs)
            return function

        return register

    def gated(self, *names: str, needs: str) -> None:
        """Names variants for hardware that no backend here has a program for."""
        for name in names:
            self.variant(name, needs=needs)(self.baseline)

    def function(self, variant: str) -> Function:
        """The program of a variant."""
        return self.variants[variant].function if variant in self.variants else self.baseline

    def contenders(self) -> Iterable[Contender]:
        """Everyone who can run it on a processor like this one."""
        common = [one for one in COMMON if self.in_torch or one.framework == "rushlight"]
        return [*common, *[one.contender for one in self.variants.values() if not one.needs]]

    def modes(self) -> Sequence[str]:
        """Modes that it has: those with gradients where an input has one."""
        return MODES if self.differentiated else MODES[:1]

    def inputs(self, shape: Shape) -> Inputs:
        """The arrays that every variant gets."""
        return drawn(lambda rng: self.make(rng, *shape), self.dtype)


class Problem(NamedTuple):
    """A benchmark at some sizes, in a mode."""

    benchmark: Benchmark
    shape: Shape
    mode: str

    @property
    def name(self) -> str:
        """As `find` reads it."""
        return f"{self.benchmark.name}/{self.mode}/{'x'.join(map(str, self.shape))}"

    @property
    def tolerance(self) -> float:
        """The largest difference allowed, as a share of the largest value expected."""
        benchmark = self.benchmark
        return TOLERANCES[benchmark.dtype] if benchmark.tolerance is None else benchmark.tolerance

    def to_case(self, inputs: Inputs, expected: Sequence[Array]) -> Case:
        """As a case of the harness: its operations and bytes are counted here.

        A backward call does twice the work of a forward one. Each operand and result is moved once.
        """
        benchmark = self.benchmark
        size = 2 if benchmark.dtype == "bfloat16" else 4
        forward = traffic_of([*inputs.values(), *expected], size)
        if benchmark.traffic is not None:
            forward = benchmark.traffic(*self.shape) + (traffic_of(expected, size) if self.mode != FORWARD else 0.0)
        factor = {FORWARD: 1.0, BACKWARD: 2.0, BOTH: 3.0}[self.mode]
        return Case(
            self.name,
            FAMILY,
            benchmark.name,
            lambda rng: benchmark.make(rng, *self.shape),
            flops=factor * benchmark.work(*self.shape),
            bytes=forward,
            dtype=benchmark.dtype,
            tolerance=self.tolerance,
        )


def traffic_of(arrays: Iterable[Array], size: int) -> float:
    """Bytes of arrays whose floats have `size` bytes where they are measured."""
    return float(sum([array.size * (size if array.dtype.kind == "f" else array.itemsize) for array in arrays]))


def elements(*sizes: int) -> float:
    """A count of operations: one for each element."""
    return float(math.prod(sizes))
