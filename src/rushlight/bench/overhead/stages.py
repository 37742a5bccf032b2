"""Where the time of calls on four elements goes: each stage is what a call takes beyond the calls within it.

Processor time in this process, in turns, medians. `measure_stages` needs native calls.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import rushlight as rl
from rushlight import nn
from rushlight.eager.execution.kernels import planned
from rushlight.eager.native.learning import NativeCalls, loaded
from rushlight.ops.record import OPERATORS

ROUNDS = 15
REPEAT = 4000
LENGTH = 50  # steps of the chain
PARAMETERS = 150


class Stage(NamedTuple):
    """A part of a call, and the nanoseconds that it takes."""

    call: str
    name: str
    ns: float


def nanoseconds(calls: Mapping[str, Callable[[], object]], rounds: int, repeat: int) -> dict[str, float]:
    """The median time of each call, without that of an empty function."""
    samples: dict[str, list[float]] = {name: [] for name in ("", *calls)}
    for _ in range(rounds):
        for name, call in (("", _nothing), *calls.items()):
            begun = time.process_time()
            for _ in range(repeat):
                call()
            samples[name].append((time.process_time() - begun) / repeat * 1e9)
    medians = {name: statistics.median(found) for name, found in samples.items()}
    return {name: medians[name] - medians[""] for name in calls}


def _nothing() -> None:
    return None


def _backward_ns(length: int, rounds: int, repeat: int) -> float:
    """The median time of a backward pass through a chain of products."""
    x, w, start = rl.ones(4), rl.ones(4, requires_grad=True), rl.ones(4)
    samples: list[float] = []
    for _ in range(rounds):
        total = 0.0
        for _ in range(repeat):
            result = w
            for _ in range(length):
                result = result * x
            begun = time.process_time()
            result.backward(start)
            total += time.process_time() - begun
            w.grad = None
        samples.append(total / repeat * 1e9)
    return statistics.median(samples)


class _Chain(nn.Module):
    """A module of many parameters, of which each adds to four elements."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(rl.ones(4)) for _ in range(count)])

    def forward(self, x: Any) -> Any:
        for weight in self.weights:
            x = x + weight
        return x


def _compiled(function: Any, inputs: tuple[Any, ...]) -> dict[str, Callable[[], object]]:
    """A compiled call, the call of its entry, and the native call of its plan."""
    compiled = rl.compile(function)
    for _ in range(3):
        compiled(*inputs)
    (entry,) = compiled.traces()
    plan = next(iter(entry.call.__globals__["plans"].values()))
    return {
        "whole": lambda: compiled(*inputs),
        "entry": lambda: entry.call(inputs, {}),
        "run": lambda: plan.run(inputs),
    }


def _eager(calls: NativeCalls) -> dict[str, Callable[[], object]]:
    x, y, w = rl.ones(4), rl.ones(4), rl.ones(4, requires_grad=True)
    add, multiply = OPERATORS["add"], OPERATORS["mul"]
    terms = (x, y, None)  # and no factor
    for _ in range(3):
        _ = x + y, x * y, w * x
    launch = planned(add, terms, {})
    assert launch is not None, "a sum is one short launch"
    run = calls.faster(launch, terms, _nothing)
    return {
        "add": lambda: x + y,
        "add, natively": lambda: calls.dispatch(add, terms, {}),
        "add, run": lambda: run(terms),
        "mul, natively": lambda: calls.dispatch(multiply, (x, y), {}),
        "recorded": lambda: w * x,
        "recorded, natively": lambda: calls.dispatch(multiply, (w, x), {}),
    }


def measure_stages(rounds: int = ROUNDS, repeat: int = REPEAT) -> list[Stage]:
    """The stages of a sum, a recorded product, a backward pass and compiled calls, if calls are native."""
    _ = rl.ones(4) + rl.ones(4)
    if not loaded():
        return []
    ns = nanoseconds(_eager(loaded()[0]), rounds, repeat)
    stages = [
        Stage("x + y", "the method's frame", ns["add"] - ns["add, natively"]),
        Stage("x + y", "signature, keys and record", ns["add, natively"] - ns["add, run"]),
        Stage("x + y", "kernel, memory, a tensor and its parts", ns["add, run"]),
        Stage("w * x, recorded", "the method's frame", ns["recorded"] - ns["recorded, natively"]),
        Stage("w * x, recorded", "as without gradients", ns["mul, natively"]),
        Stage("w * x, recorded", "step, saved tensor, line, history", ns["recorded, natively"] - ns["mul, natively"]),
    ]
    first = _backward_ns(1, rounds, max(1, repeat // 20))
    whole = _backward_ns(LENGTH, rounds, max(1, repeat // 400))
    each = (whole - first) / (LENGTH - 1)
    stages += [
        Stage(f"backward of {LENGTH} products", "the pass and its first step", first),
        Stage(f"backward of {LENGTH} products", f"{LENGTH - 1} further steps, {each:,.0f} each", whole - first),
    ]
    stages += _compiled_stages("compiled x * y + y", lambda x, y: x * y + y, (rl.ones(4), rl.ones(4)), rounds, repeat)
    module = _Chain(PARAMETERS).requires_grad_(False)
    call = f"compiled, {PARAMETERS} parameters"
    stages += _compiled_stages(call, lambda x: module(x), (rl.ones(4),), rounds, repeat)
    return stages


def _compiled_stages(
    call: str, function: Callable[..., object], inputs: tuple[object, ...], rounds: int, repeat: int
) -> list[Stage]:
    ns = nanoseconds(_compiled(function, inputs), rounds, repeat)
    return [
        Stage(call, "above the entry", ns["whole"] - ns["entry"]),
        Stage(call, "the entry's frame: guards and plan", ns["entry"] - ns["run"]),
        Stage(call, "kernel, memory, a tensor and its parts", ns["run"]),
    ]
