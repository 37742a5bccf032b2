"""A worker's answers about variants of operators: prepared, checked, measured, with caches that are cold or warm."""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

import rushlight as rl
from rushlight.bench.hosts.pytorch import PyTorchApi, tensor_of
from rushlight.bench.operators.catalog import find
from rushlight.bench.operators.record import BACKWARD, FORWARD, PLANTED, Function, Problem
from rushlight.bench.programs.pytorch_ops import Modes
from rushlight.bench.records import Array, Inputs, Record, Work
from rushlight.bench.serving import Server, estimate, load

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
SMALLEST_FLUSH, LARGEST_FLUSH = 8 << 20, 256 << 20
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PEAK_OF_THIS_PROCESS = "5"  # what resets the high-water mark, by Linux's manual of /proc
SLOPE = "slope"


def last_cache_bytes() -> int:
    """The size of the processor's largest cache; 32 MiB where the system does not say."""
    sizes = [path.read_text(encoding="ascii").strip() for path in CACHES.glob("index*/size")]
    return max([int(size[:-1]) << 10 for size in sizes if size.endswith("K")], default=32 << 20)


class Flush:
    """Evicts what the caches hold, by writing twice as much."""

    def __init__(self) -> None:
        size = min(max(2 * last_cache_bytes(), SMALLEST_FLUSH), LARGEST_FLUSH)
        self._memory = np.zeros(size // 8, np.int64)

    def __call__(self) -> None:
        """Writes to each line of it."""
        np.add(self._memory, 1, out=self._memory)


def differentiated(problem: Problem, inputs: Inputs) -> list[int]:
    """The positions of the inputs that have gradients."""
    return [at for at, name in enumerate(inputs) if name in problem.benchmark.differentiated]


def work_of(problem: Problem, function: Function, modes: Modes, inputs: Inputs) -> Work:
    """A call: forward, the gradients alone of a forward pass that is there, or both in one step."""
    dtype = problem.benchmark.dtype
    given = {name: tensor_of(value, dtype) for name, value in inputs.items()}
    slope = given.pop(SLOPE, None)
    operands = list(given.values())
    if problem.mode == FORWARD:
        ready = modes.function(function)
        return lambda: ready(*operands)
    positions = differentiated(problem, inputs)
    if problem.mode == BACKWARD:
        leaves = [operands[at].requires_grad_() for at in positions]
        result = modes.function(function)(*operands)
        return lambda: rl.autograd.grad(result, leaves, slope, retain_graph=True)
    inner = modes.part(function)

    def step(slope: rl.Tensor, *tensors: rl.Tensor) -> tuple[rl.Tensor, ...]:
        values = list(tensors)
        for at in positions:
            values[at] = values[at].detach().requires_grad_()
        found = inner(*values)
        return (found.detach(), *rl.autograd.grad(found, [values[at] for at in positions], slope))

    whole = modes.step(step)
    return lambda: whole(slope, *operands)


def with_a_fault(arrays: list[Array], share: float) -> list[Array]:
    """Results of which one element is off by a share of the largest one."""
    first = arrays[0].copy()
    first.flat[0] += np.asarray(max(share * float(np.abs(first).max()), 1e-3 if first.dtype.kind == "f" else 1)).astype(
        first.dtype
    )
    return [first, *arrays[1:]]


def memory_of_process(word: str) -> int:
    """A number of bytes from what Linux says of this process."""
    (line,) = [line for line in STATUS.read_text(encoding="ascii").splitlines() if line.startswith(f"{word}:")]
    return int(line.split()[1]) << 10


class Inside(Protocol):
    """What a framework says of itself."""

    def configurations(self) -> Sequence[str]:
        """What has been chosen by measurement so far."""
        ...

    def release(self) -> None:
        """Gives idle memory back to the system."""
        ...


class Unknown:
    """A framework that says nothing of itself."""

    def configurations(self) -> Sequence[str]:
        """See `Inside`."""
        return ()

    def release(self) -> None:
        """See `Inside`."""


class OperatorServer(Server):
    """One framework in one mode, and the variant that it is ready for."""

    def __init__(self, host: PyTorchApi, inside: Inside) -> None:
        super().__init__(host)
        self.modes = host.modes
        self.inside = inside
        self._flush: Flush | None = None

    def prepare(self, case: str, folder: str, variant: str = "") -> Record:
        """Makes a variant ready, checks its results, and says what its calls take: times, memory, configuration."""
        self.forget()
        problem = find(case)
        before = self.inside.configurations()
        work = work_of(problem, problem.benchmark.function(variant), self.modes, load(folder, "inputs"))
        fault = functools.partial(with_a_fault, share=max(10 * problem.tolerance, 0.01))
        answer = self.check(work, folder, problem.tolerance, change=fault if variant == PLANTED else list)
        answer["accuracy"] = int(self.work is not None)
        if self.work is None:
            return answer
        found = [line for line in self.inside.configurations() if line not in before]
        seconds = estimate(work)
        compiling = max(answer["first_call_s"] - seconds, 0.0)
        answer |= {"call_s": seconds, "compile_s": compiling, "configuration": "; ".join(found)}
        return {**answer, "peak_bytes": self.peak_bytes(work)}

    def peak_bytes(self, work: Work) -> int | None:
        """How far a call raises this process's memory, results included; None where the system does not say."""
        if not (STATUS.exists() and CLEAR.exists()):
            return None
        gc.collect()
        self.inside.release()
        CLEAR.write_text(PEAK_OF_THIS_PROCESS, encoding="ascii")
        before = memory_of_process("VmRSS")
        work()
        return max(memory_of_process("VmHWM") - before, 0)

    def chill(self) -> Record:
        """Seconds that emptying the caches takes."""
        if self._flush is None:
            self._flush = Flush()
            self._flush()
        started = time.perf_counter()
        self._flush()
        return {"seconds": time.perf_counter() - started}

    def sample_cold(self, repeat: int, warm: bool) -> Record:
        """Seconds of one call with cold caches, as the mean of `repeat` calls; emptying them is not counted."""
        assert self.work is not None and self._flush is not None
        seconds = 0.0
        for _ in range(repeat):
            self._flush()
            started = time.perf_counter()
            self.work()
            seconds += time.perf_counter() - started
        return {"seconds": seconds / repeat}

    def answers(self) -> Mapping[str, Callable[..., Record]]:
        """See `Server`."""
        return {**super().answers(), "chill": self.chill, "sample_cold": self.sample_cold}
