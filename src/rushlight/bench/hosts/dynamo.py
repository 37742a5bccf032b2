"""TorchDynamo's capture, instruction by instruction."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as rl
from rushlight.bench.bytecodes import Meter, answer, compiling
from rushlight.bench.hosts.pytorch import tensor_of
from rushlight.bench.programs.pytorch_ops import Modes
from rushlight.bench.records import Record, Work

peer: Any = rl


class Capture:
    """torch.compile with graphs that run eagerly."""

    version: str = rl.__version__

    def __init__(self) -> None:
        self.compile = functools.partial(peer.compile, backend="eager")

    def modes(self) -> Modes:
        """See `Capturer`."""
        self.compile(lambda x: x + 1)(peer.ones(2))
        return compiling(self.compile, whole_steps=False)

    def capture_seconds(self, work: Work) -> float:
        """See `Capturer`. It is the time of a first call less that of a second."""
        peer._dynamo.reset()
        start = time.process_time()
        work()
        first = time.process_time()
        work()
        return max(2 * first - start - time.process_time(), 0.0)

    def meter(self, work: Work) -> Meter:
        """See `Capturer`."""
        translator: Any = importlib.import_module("torch._dynamo.symbolic_convert").InstructionTranslatorBase
        meter, plain = Meter(), translator.step

        def step(frame: Any) -> bool:
            graph = frame.output.graph
            inputs = functools.partial(graph.find_nodes, op="placeholder", sort=False)
            return meter.measure(plain, (frame,), lambda: len(graph.nodes) - len(inputs()))

        peer._dynamo.reset()
        translator.step = step
        try:
            work()
        finally:
            translator.step = plain
        return meter

    def compile_natively(self, function: Any) -> Any:
        """See `Capturer`."""
        return peer.compile(function)

    def guards(self, compiled: Any, function: Any, operands: Sequence[Any]) -> Callable[[], object]:
        """See `Capturer`."""
        frames: Any = importlib.import_module("torch._C._dynamo.eval_frame")
        code = getattr(function, "forward", function).__code__
        compiled(*operands)
        (entry,) = frames._debug_get_cache_entry_list(code)
        values = ([function] if hasattr(function, "forward") else []) + list(operands)
        named = dict(zip(code.co_varnames[: code.co_argcount], values, strict=True))
        check: Callable[[dict[str, Any]], bool] = entry.guard_manager.root.check
        assert check(named)
        return lambda: check(named)


def make_answer(mode: str, program: str, size: int) -> Record:
    """A program's measurements; there is one `mode`, "parts"."""
    assert mode == "parts"
    return answer(Capture(), tensor_of, program, size)
